//go:build !linux && cgo

package bar

import "context"

func reach(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, cancel, nil
}

// name does nothing: a title would stand beside the picture.
func name() {}
