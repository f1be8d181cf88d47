package bolt

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"payledger/eventstore"
)

// TestReplacedUnderTheStore removes the name of an open log in several ways: while it is written to,
// while it is idle, and just before it is closed. Each time nothing more is recorded and the store says
// so, also when it is closed; by then a backup has all acknowledged records.
func TestReplacedUnderTheStore(t *testing.T) {
	t.Parallel()
	for what, replace := range map[string]func(path, other string) error{
		"removed":           func(path, _ string) error { return os.Remove(path) },
		"renamed":           func(path, _ string) error { return os.Rename(path, path+".moved") },
		"another":           func(path, other string) error { return os.Rename(other, path) },
		"link":              func(path, other string) error { return errors.Join(os.Remove(path), os.Symlink(other, path)) },
		"directory removed": func(path, _ string) error { return removeAtOnce(filepath.Dir(path)) },
		"directory renamed": func(path, _ string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".moved") },
	} {
		for _, when := range []string{"written to", "idle", "closed"} {
			t.Run(what+", "+when, func(t *testing.T) {
				t.Parallel()
				suspended := make(chan error, 1)
				s, path := inDirectory(t, Options{Report: func(err error) { suspended <- err }})
				l := newLoad()
				written := make(chan struct{})
				go func() {
					defer close(written)
					limit := 10
					if when == "written to" {
						limit = 1 << 16
					}
					l.write(t.Context(), s, 4, limit, nil)
				}()
				l.reached(t, 40)
				if when != "written to" {
					<-written
				}
				if err := replace(path, newLog(t)); err != nil {
					t.Fatal(err)
				}
				<-written
				var replaced *ReplacedError
				if when == "written to" && !errors.As(l.err, &replaced) {
					t.Errorf("a commit is answered with %v", l.err)
				}
				if when != "closed" {
					if err := <-suspended; !errors.As(err, &replaced) || replaced.Path != path {
						t.Fatalf("it reports %v", err)
					}
					_, refused := eventstore.AppendOne(t.Context(), s, loadCommit(9, 0, 0))
					for what, err := range map[string]error{"a commit": refused, "Suspended": s.Suspended(), "Refuses": s.Refuses()} {
						if !errors.As(err, &replaced) || !eventstore.Passing(err) {
							t.Errorf("%s is answered with %v", what, err)
						}
					}
					copied, _ := backup(t, s)
					if wrongs := l.wrongs(copied); len(wrongs) > 0 {
						t.Errorf("%d wrongs: %q", len(wrongs), first(wrongs))
					}
				}
				if err := s.Close(); !errors.As(err, &replaced) || replaced.Path != path {
					t.Errorf("it ends with %v", err)
				}
			})
		}
	}
}

func removeAtOnce(dir string) error {
	return errors.Join(os.Rename(dir, dir+".removed"), os.RemoveAll(dir+".removed"))
}

// inDirectory makes a log in its own directory, which a test may remove.
func inDirectory(t *testing.T, o Options) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data", "ledger.db")
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), Init(path, logID)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, path
}

// TestWrittenOverUnderTheStore overwrites the open file: the store acknowledges
// nothing more, ends and says why. The records are lost with the file.
func TestWrittenOverUnderTheStore(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(path string, early []byte) error{
		"cut to nothing":     func(path string, _ []byte) error { return os.Truncate(path, 0) },
		"cut to two pages":   func(path string, _ []byte) error { return os.Truncate(path, 2*int64(os.Getpagesize())) },
		"cut by a page":      func(path string, _ []byte) error { return cutBy(path, int64(os.Getpagesize())) },
		"an older copy":      func(path string, early []byte) error { return os.WriteFile(path, early, 0o600) },
		"zeros":              func(path string, early []byte) error { return os.WriteFile(path, make([]byte, len(early)), 0o600) },
		"a copy in place":    overwrite,
		"no states in place": func(path string, _ []byte) error { return overwrite(path, make([]byte, 2*os.Getpagesize())) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, path := inDirectory(t, Options{})
			early, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			l := newLoad()
			written := make(chan struct{})
			go func() {
				defer close(written)
				l.write(t.Context(), s, 4, 1<<16, nil)
			}()
			l.reached(t, 200)
			// Between two groups: a commit under way would write the newest state
			// over an older one. Then only the checks of pages and records would
			// find the other damage.
			s.writing.Lock()
			err = spoil(path, early)
			s.writing.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			<-written
			select {
			case <-s.Fatal():
			case <-time.After(time.Minute):
				t.Fatalf("the store goes on; the last commit is answered with %v", l.err)
			}
			var fatal *eventstore.FatalError
			if !errors.As(l.err, &fatal) || !errors.Is(s.Err(), ErrDamaged) {
				t.Errorf("a commit is answered with %v, the store ends with %v", l.err, s.Err())
			}
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				_ = s.Close() // what bbolt says of such a file does not matter
			}()
			select {
			case <-closed:
			case <-time.After(time.Minute):
				t.Error("Close does not end")
			}
		})
	}
}

func cutBy(path string, n int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()-n)
}

func overwrite(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
