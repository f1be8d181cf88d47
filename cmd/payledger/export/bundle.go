package export

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"payledger/cmd/payledger/cli"
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

// Bundle is an exported bundle, a tar file.
type Bundle struct{ Path string }

// OpenBundle returns nil when the file is something else.
func OpenBundle(name string) (*Bundle, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the caller opens it in another way and reports the error
	}
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	// A tar header has its magic at 257 (POSIX ustar).
	head := make([]byte, 262)
	if _, err := io.ReadFull(f, head); err != nil || string(head[257:]) != "ustar" {
		return nil, nil // too short to be one
	}
	return &Bundle{Path: name}, nil
}

// each calls fn for every entry but the directories, until it returns an error. No entry is longer
// than the archive.
func (b *Bundle) each(ctx context.Context, fn func(h *tar.Header, r io.Reader) error) error {
	f, err := os.Open(b.Path)
	if err != nil {
		return err
	}
	defer f.Close()                                          //nolint:errcheck // only read
	defer context.AfterFunc(ctx, func() { _ = f.Close() })() // no more can be read then
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return ctx.Err()
		case err != nil:
			return cmp.Or(ctx.Err(), b.unreadable(err))
		case h.PAXRecords["GNU.sparse.major"]+h.PAXRecords["GNU.sparse.map"] != "": // it would be filled up with zeros
			return b.unreadable(fmt.Errorf("%q in it is sparse: pack the files as they are", path.Clean(h.Name)))
		case h.Typeflag == tar.TypeDir, h.Typeflag == tar.TypeXGlobalHeader:
			continue
		case !filepath.IsLocal(h.Name):
			return cli.Errorf(cli.ExitDirectory, "%s is not a bundle, it holds %q, a path that leads out of the archive", b.Path, h.Name)
		}
		h.Name = cli.Visible(path.Clean(h.Name))
		if err := fn(h, in); err != nil {
			return cmp.Or(ctx.Err(), err)
		}
	}
}

func (b *Bundle) unreadable(err error) error {
	return cli.Errorf(cli.ExitDirectory, "%s cannot be read: %w", b.Path, err)
}

// EventLines are the lines of a bundle's events where they lie in the archive.
type EventLines struct {
	*io.SectionReader
	io.Closer
}

// OpenEvents finds the events.
func (b *Bundle) OpenEvents() (*EventLines, error) {
	f, err := os.Open(b.Path)
	if err != nil {
		return nil, err
	}
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if err != nil {
			return nil, errors.Join(b.unreadable(err), f.Close())
		}
		if h.Typeflag == tar.TypeReg && path.Base(h.Name) == EventsFile {
			start, err := f.Seek(0, io.SeekCurrent) // tar reads whole blocks, no further
			return &EventLines{io.NewSectionReader(f, start, h.Size), f}, err
		}
	}
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

// Survey reads everything but the events' content. A repacked bundle may be in a directory of the
// archive: files outside of the events' directory are not part of it, and keep their names.
func (b *Bundle) Survey(ctx context.Context) (Contents, error) {
	type entry struct {
		name, sum string // no sum: it is no regular file
		small     []byte
	}
	var all []entry
	root := ""
	err := b.each(ctx, func(h *tar.Header, r io.Reader) error {
		e := entry{name: h.Name}
		switch {
		case len(all) == maxBundleFiles:
			return cli.Errorf(cli.ExitDirectory, "%s is not a bundle, it holds more than %d files", b.Path, maxBundleFiles)
		case h.Typeflag != tar.TypeReg:
			all = append(all, e)
			return nil
		}
		sum := sha256.New()
		var keep bytes.Buffer
		switch path.Base(e.name) {
		case EventsFile:
			if root != "" {
				return cli.Errorf(cli.ExitDirectory, "%s holds %s twice", b.Path, EventsFile)
			}
			root = path.Dir(e.name)
		case CheckpointFile, KeyFile, ManifestFile:
			if h.Size > maxBundleSmall {
				return cli.Errorf(cli.ExitDirectory, "%s: %s has %d bytes, that is not one", b.Path, e.name, h.Size)
			}
			r = io.TeeReader(r, &keep)
		}
		if _, err := io.Copy(sum, r); err != nil {
			return b.unreadable(err)
		}
		e.sum, e.small = hex.EncodeToString(sum.Sum(nil)), keep.Bytes()
		all = append(all, e)
		return nil
	})
	if err == nil && root == "" {
		err = cli.Errorf(cli.ExitDirectory, "%s is not a bundle, it has no %s", b.Path, EventsFile)
	}
	c := Contents{sums: make(map[string]string), Small: make(map[string][]byte)}
	for _, e := range all {
		name := strings.TrimPrefix(e.name, root+"/")
		if e.sum == "" {
			c.odd = append(c.odd, name)
			continue
		}
		if _, twice := c.sums[name]; twice && err == nil {
			err = cli.Errorf(cli.ExitDirectory, "%s holds %s twice", b.Path, name)
		}
		c.sums[name], c.Small[name] = e.sum, e.small
	}
	return c, err
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
