package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
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

// adminWait is how long a directory may be in use by a process that does not
// answer: a server that is starting, or another command.
const adminWait = 10 * time.Second

// reach looks for the server that runs on the directory; live reports that
// there is one. Else hold takes the directory itself, and err is hold's error.
// While that says that the directory is in use (exitInUse), both are tried
// again for adminWait.
func (d dataDir) reach(ctx context.Context, hold func() error) (live bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, adminWait)
	defer cancel()
	for {
		if conn, err := d.dialSocket(ctx); err == nil {
			conn.Close()
			return true, nil
		}
		err := hold()
		if e, ok := errors.AsType[*exitError](err); !ok || e.code != exitInUse {
			return false, err
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(50 * time.Millisecond):
		}
	}
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
