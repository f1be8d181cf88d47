package datadir

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"payledger/cmd/payledger/cli"
)

// maxSocketPath is the longest path the kernel takes for a Unix socket
// (sun_path of unix(7), less its final zero byte).
const maxSocketPath = 107

// ListenSocket opens the admin socket, only for the directory's owner: on Linux its mode is set
// before it is bound, so that it is never open to others. The caller holds the directory's lock, so a
// socket that is still there belongs to a process that is gone. A full disk has room for it: a
// socket needs an inode and no block. It is gone when the listener is closed, but for one with
// a long path.
func (d Dir) ListenSocket() (net.Listener, error) {
	if err := RemoveIfExists(d.socket()); err != nil {
		return nil, err
	}
	path, done, err := shortPath(d.socket())
	if err != nil {
		return nil, err
	}
	defer done()
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
	}}
	l, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(d.socket(), 0o600); err != nil { // other systems refuse it before
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// DialSocket connects to the admin socket of a running server.
func (d Dir) DialSocket(ctx context.Context) (net.Conn, error) {
	path, done, err := shortPath(d.socket())
	if err != nil {
		return nil, err
	}
	defer done()
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}

// AdminWait is how long a directory may be in use by a process that does not
// answer: a server that is starting, or another command.
const AdminWait = 10 * time.Second

// Reach looks for the server that runs on the directory; live reports that there is one. Else hold
// locks the directory, and err is hold's error. While that says that the directory is in use
// (exitInUse), both are tried again for adminWait.
func (d Dir) Reach(ctx context.Context, hold func() error) (live bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, AdminWait)
	defer cancel()
	for {
		if conn, err := d.DialSocket(ctx); err == nil {
			conn.Close()
			return true, nil
		}
		err := hold()
		if e, ok := errors.AsType[*cli.ExitError](err); !ok || e.Code != cli.ExitInUse {
			return false, err
		}
		select {
		case <-ctx.Done():
			return false, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// shortPath returns a path to the same file that a Unix socket can take; a
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
