package export

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"payledger/cmd/payledger/cli"
	"payledger/eventstore/translog"
)

// The files of a bundle that verify reads.
const (
	EventsFile     = "events.jsonl"
	CheckpointFile = "checkpoint"
	KeyFile        = "verifier.key"
	ManifestFile   = "manifest.json"
	JournalFile    = "journal.hledger"
)

// The bounds of a bundle: of every file but the events and the journal, and of
// how many files there are.
const (
	maxBundleSmall = 1 << 20
	maxBundleFiles = 64
)

// Bundle is an exported bundle: a directory or a tar file.
type Bundle struct {
	Path string
	tar  bool
	root string // the directory in the tar file that holds all of it
}

// OpenBundle answers nil when the path is something else.
func OpenBundle(name string) (*Bundle, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil // the caller opens it in another way and reports the error
	}
	if info.IsDir() {
		if _, err := os.Stat(filepath.Join(name, EventsFile)); err != nil {
			return nil, nil // not a bundle
		}
		return &Bundle{Path: name}, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	// A tar header has its magic at 257 (POSIX ustar).
	head := make([]byte, 262)
	if _, err := io.ReadFull(f, head); err != nil || string(head[257:]) != "ustar" {
		return nil, nil // too short to be one
	}
	return &Bundle{Path: name, tar: true}, nil
}

// Each calls fn for every file of the bundle, in the order in which they lie
// there. Names in a tar file lose the bundle's directory; r is nil for an entry
// that is not a regular file.
func (b *Bundle) Each(fn func(name string, size int64, r io.Reader) error) error {
	if !b.tar {
		return b.eachInDir(fn)
	}
	f, err := os.Open(b.Path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	in := tar.NewReader(f)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s cannot be read: %w", b.Path, err)
		}
		name := path.Clean(h.Name)
		if b.root != "." {
			name = strings.TrimPrefix(name, b.root+"/")
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = fn(name, h.Size, in)
		case tar.TypeDir, tar.TypeXGlobalHeader:
		default:
			err = fn(name, 0, nil)
		}
		if err != nil {
			return err
		}
	}
}

func (b *Bundle) eachInDir(fn func(name string, size int64, r io.Reader) error) error {
	entries, err := os.ReadDir(b.Path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		err := func() error {
			f, err := os.Open(filepath.Join(b.Path, e.Name()))
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // only read
			info, err := f.Stat()
			if err != nil {
				return err
			}
			return fn(e.Name(), info.Size(), f)
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckpointName names the bundle's checkpoint in messages.
func (b *Bundle) CheckpointName() string { return b.Path + "/" + CheckpointFile }

// Contents is what a bundle holds: the SHA-256 of each file, the content of
// small ones, and the names of entries that are not regular files.
type Contents struct {
	sums  map[string]string
	Small map[string][]byte
	odd   []string
}

// Survey reads everything but the events' meaning.
func (b *Bundle) Survey() (Contents, error) {
	c := Contents{sums: make(map[string]string), Small: make(map[string][]byte)}
	if err := b.findRoot(); err != nil {
		return c, err
	}
	err := b.Each(func(name string, size int64, r io.Reader) error {
		switch _, twice := c.sums[name]; {
		case twice:
			return cli.Errorf(cli.ExitDirectory, "%s holds %s twice", b.Path, name)
		case len(c.sums)+len(c.odd) == maxBundleFiles:
			return cli.Errorf(cli.ExitDirectory, "%s is not a bundle, it holds more than %d files", b.Path, maxBundleFiles)
		case r == nil:
			c.odd = append(c.odd, name)
			return nil
		}
		sum := sha256.New()
		var keep bytes.Buffer
		if slices.Contains([]string{CheckpointFile, KeyFile, ManifestFile}, name) {
			if size > maxBundleSmall {
				return cli.Errorf(cli.ExitDirectory, "%s: %s has %d bytes, that is not one", b.Path, name, size)
			}
			r = io.TeeReader(r, &keep)
		}
		if _, err := io.Copy(sum, r); err != nil {
			return err
		}
		c.sums[name] = hex.EncodeToString(sum.Sum(nil))
		c.Small[name] = keep.Bytes()
		return nil
	})
	if err == nil && c.sums[EventsFile] == "" {
		err = cli.Errorf(cli.ExitDirectory, "%s is not a bundle, it has no %s", b.Path, EventsFile)
	}
	return c, err
}

// findRoot finds the directory of a tar file that holds the events. Files in
// other directories are not part of the bundle.
func (b *Bundle) findRoot() error {
	b.root = "."
	found := false
	return b.Each(func(name string, _ int64, r io.Reader) error {
		if r == nil || path.Base(name) != EventsFile {
			return nil
		}
		if found {
			return cli.Errorf(cli.ExitDirectory, "%s holds %s twice", b.Path, EventsFile)
		}
		b.root, found = path.Dir(name), true
		return nil
	})
}

// Parts are what can be read of a bundle without its manifest.
type Parts struct {
	Checkpoint, Key []byte // nil where there is none
	File            string // that holds the events
	From, Size      int64  // where in it; size -1 is to its end
}

// Readable finds the parts of a bundle however damaged the rest of it is. If the
// parts cannot be told apart, the whole file is taken for lines of events.
func (b *Bundle) Readable() (p Parts, err error) {
	if !b.tar {
		small := func(name string) []byte {
			content, err := os.ReadFile(filepath.Join(b.Path, name))
			if err != nil || len(content) > translog.MaxCheckpoint {
				return nil
			}
			return content
		}
		return Parts{small(CheckpointFile), small(KeyFile), filepath.Join(b.Path, EventsFile), 0, -1}, nil
	}
	p = Parts{File: b.Path, Size: -1}
	f, err := os.Open(b.Path)
	if err != nil {
		return p, cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if err != nil {
			break // the end, or damage
		}
		small := func() []byte {
			content, err := io.ReadAll(io.LimitReader(in, translog.MaxCheckpoint))
			if err != nil {
				return nil
			}
			return content
		}
		switch path.Base(h.Name) {
		case EventsFile:
			if at, err := f.Seek(0, io.SeekCurrent); err == nil {
				p.From, p.Size = at, h.Size
			}
		case CheckpointFile:
			p.Checkpoint = small()
		case KeyFile:
			p.Key = small()
		}
	}
	if info, err := f.Stat(); err == nil && p.Size >= 0 {
		p.Size = min(p.Size, info.Size()-p.From)
	}
	return p, nil
}

// OpenFailed gives an error of the file system the exit code of a missing or
// damaged directory.
func OpenFailed(err error) error {
	var e *cli.ExitError
	var system *fs.PathError
	if errors.As(err, &system) && !errors.As(err, &e) {
		return cli.WithCode(cli.ExitDirectory, err)
	}
	return err
}
