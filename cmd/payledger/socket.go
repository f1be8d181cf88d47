package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// maxSocketPath is the longest path the kernel takes for a Unix socket
// (sun_path of unix(7), less its final zero byte).
const maxSocketPath = 107

// listenSocket opens the admin socket. The caller holds the directory's lock,
// so a socket that is still there belongs to a process that is gone.
func (d dataDir) listenSocket() (net.Listener, error) {
	if err := os.Remove(d.socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	path, done, err := shortPath(d.socket())
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		done()
		return nil, err
	}
	if err := os.Chmod(d.socket(), 0o600); err != nil {
		l.Close()
		done()
		return nil, err
	}
	return &socketListener{l, done}, nil
}

// dialSocket connects to the admin socket of a running server.
func (d dataDir) dialSocket(ctx context.Context) (net.Conn, error) {
	path, done, err := shortPath(d.socket())
	if err != nil {
		return nil, err
	}
	defer done()
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}

// shortPath answers a path to the same file that a Unix socket can take; a
// longer one is reached through a symbolic link to its directory. done removes
// the link.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", nil, err
	}
	tmp, err := os.MkdirTemp("", "payledger")
	if err != nil {
		return "", nil, err
	}
	done = func() { _ = os.RemoveAll(tmp) } // what stays is an empty folder
	link := filepath.Join(tmp, "d")
	if err := os.Symlink(dir, link); err != nil {
		done()
		return "", nil, err
	}
	return filepath.Join(link, filepath.Base(path)), done, nil
}

// socketListener removes the short path when it is closed; closing the
// listener inside has removed the socket by then.
type socketListener struct {
	net.Listener
	done func()
}

func (l *socketListener) Close() error {
	defer l.done()
	return l.Listener.Close()
}
