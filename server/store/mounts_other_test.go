//go:build !linux

package store

import "errors"

func childMounts(string) error { return errors.New("mount namespaces are Linux's") }
