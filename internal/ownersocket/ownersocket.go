// Package ownersocket is a door that only the user who runs a program can open: a unix socket with mode
// 0600, at a path that every system can bind, in a folder of that user's. File permissions are its only
// credential.
//
// It owns where such a socket stands, and who may have put it there: what another user owns is refused on
// both sides, so that nobody can play the program to its owner. It knows nothing of what is spoken there.
package ownersocket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// MaxPath is the longest path that every system binds a socket at: macOS takes 104 bytes with the zero.
const MaxPath = 100

// RefusedError is a folder or socket that is not this user's alone. Its parts are for people.
type RefusedError struct {
	Path string
	What string // what is wrong with it
	Fix  string // the way out
}

// Error says what was refused and why.
func (e *RefusedError) Error() string { return e.Path + " " + e.What }

// Path is where the socket of that name stands: in the folder, or, where that path is too long for a
// socket, under a hash of it in a folder of this user's in /tmp, whose name begins with prefix. Both sides
// come to the same path: TMPDIR, which may differ between them, is not asked. moved says that it is the
// second.
func Path(dir, name, prefix string) (path string, moved bool) {
	return PathOf(os.Getuid(), dir, name, prefix)
}

// PathOf is Path for a program of that user.
func PathOf(user int, dir, name, prefix string) (path string, moved bool) {
	path = filepath.Join(dir, name)
	if len(path) <= MaxPath {
		return path, false
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join("/tmp", prefix+"-"+strconv.Itoa(user), hex.EncodeToString(sum[:8])), true
}

// Private makes a folder that only this user can enter, and refuses one that is not.
func Private(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	owner := ownerOf(st)
	switch {
	case !st.IsDir():
		return &RefusedError{dir, "is no folder", "remove it"}
	case owner != os.Getuid():
		return &RefusedError{dir, fmt.Sprintf("belongs to another user (uid %d)", owner), "have that user, or root, remove it"}
	case st.Mode().Perm()&0o077 != 0:
		return &RefusedError{dir, fmt.Sprintf("is open to others (mode %04o)", st.Mode().Perm()), "chmod 700 " + dir}
	}
	return nil
}

// Listen opens the socket for this user alone. A socket that a program of this user left is removed: the
// caller holds the lock that tells that no other one serves it. Anything else that stands there is refused.
func Listen(path string) (net.Listener, error) {
	switch err := check(path, os.Getuid(), false); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("clear socket: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("close socket to others: %w", err), l.Close())
	}
	return l, nil
}

// Dial connects to the socket, unless another user put it there; root may open any. A program that does
// not run is fs.ErrNotExist or syscall.ECONNREFUSED.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	if err := check(path, os.Getuid(), true); err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}

// check is nil when a socket of that user stands there; root may use those of others where that is asked.
func check(path string, user int, rootMay bool) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	owner := ownerOf(st)
	switch {
	case st.Mode()&fs.ModeSocket == 0:
		return &RefusedError{path, "is no socket", "move it away"}
	case owner != user && !(user == 0 && rootMay):
		return &RefusedError{path, fmt.Sprintf("belongs to another user (uid %d)", owner), "have that user, or root, remove it"}
	}
	return nil
}

// Owner is the user id of a folder's owner; false for one that is not there.
func Owner(dir string) (uid int, ok bool) {
	st, err := os.Stat(dir)
	if err != nil {
		return -1, false
	}
	uid = ownerOf(st)
	return uid, uid >= 0
}

// ownerOf is the user id of a file's owner; -1 when the system has none.
func ownerOf(st fs.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}
