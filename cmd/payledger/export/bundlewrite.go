package export

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore/translog"
)

// WriteBundle writes what an auditor needs into a tar file: the events that a fresh
// checkpoint covers, no more and no fewer, the journal of them, the checkpoint and
// the key it is signed with. With a project, all but its events and those that move its money are
// opaque.
func WriteBundle(ctx context.Context, m *cli.Client, key string, o Options, output string, stderr io.Writer) (done Done, err error) {
	signed, point, err := freshCheckpoint(ctx, m, key)
	if err != nil {
		return done, err
	}
	return done, whenWhole(output, func(unfinished string) error {
		w := bundleWriter{m: m, dir: unfinished + ".parts", signed: signed, point: point, key: key, of: o, stderr: stderr}
		if done, err = w.parts(ctx); err != nil {
			return err
		}
		return packBundle(unfinished, w.dir)
	})
}

type bundleWriter struct {
	m      *cli.Client
	dir    string // of the unfinished files
	signed []byte
	point  translog.Checkpoint
	key    string
	of     Options
	stderr io.Writer
}

// parts writes the files of a bundle into a new directory.
func (w bundleWriter) parts(ctx context.Context) (done Done, err error) {
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		return done, err
	}
	file := func(name string) string { return filepath.Join(w.dir, name) }
	for _, part := range []struct{ name, format, doing string }{
		{EventsFile, "jsonl", "Exporting events"}, {JournalFile, "hledger", "Writing the journal"},
	} {
		x := Pass{
			m: w.m, format: newFormat(part.format), whole: w.of.Project, details: w.of.Details && part.name == EventsFile,
			last: w.point.Size, progress: cli.Progress(w.stderr, part.doing),
		}
		written, err := x.create(ctx, file(part.name))
		if err != nil {
			return done, err
		}
		if part.name == EventsFile {
			done = written
		}
	}
	if err := datadir.WriteFileSynced(file(CheckpointFile), w.signed); err != nil {
		return done, err
	}
	if err := datadir.WriteFileSynced(file(KeyFile), []byte(w.key+"\n")); err != nil {
		return done, err
	}
	return done, writeManifest(w.dir, w.point, w.of.Project)
}

// DirectoryKey is the verifier key for a bundle of a directory's log.
func DirectoryKey(d datadir.Dir) (string, error) {
	key, err := d.OwnVerifierKey()
	if err == nil && key == "" {
		err = cli.Errorf(cli.ExitDirectory, "%s has no log.key, so there is no signed checkpoint to put into a bundle", d)
	}
	return key, err
}

// FileKey is the verifier key for a bundle of the log in a file.
func FileKey(name string) (string, error) {
	b, err := OpenBundle(name)
	if err != nil {
		return "", err
	}
	if b == nil {
		return "", cli.Errorf(cli.ExitUsage, "%s holds no signed checkpoint to put into a bundle: export it from a data directory, or from a bundle", name)
	}
	in, err := b.Survey()
	return strings.TrimSpace(string(in.Small[KeyFile])), OpenFailed(err)
}

// freshCheckpoint asks for a checkpoint and opens it with the key.
func freshCheckpoint(ctx context.Context, m *cli.Client, key string) (signed []byte, point translog.Checkpoint, err error) {
	verifier, err := translog.ParseVerifier(key)
	if err != nil {
		return nil, point, err
	}
	resp, err := m.Send(ctx, http.MethodGet, "/admin/log/checkpoint", nil)
	if err != nil {
		return nil, point, err
	}
	defer resp.Body.Close()
	if signed, err = io.ReadAll(io.LimitReader(resp.Body, translog.MaxCheckpoint)); err != nil {
		return nil, point, fmt.Errorf("reading the checkpoint: %w", err)
	}
	point, err = verifier.Open(signed)
	return signed, point, err
}

func copyInto(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}

// packBundle puts a bundle's files into one, the small ones first.
func packBundle(name, dir string) error {
	f, err := datadir.CreatePrivate(name)
	if err != nil {
		return err
	}
	return errors.Join(packParts(f, dir), f.Sync(), f.Close())
}

func packParts(f io.Writer, dir string) error {
	out := tar.NewWriter(f)
	for _, part := range append([]string{ManifestFile}, bundleParts()...) {
		info, err := os.Stat(filepath.Join(dir, part))
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: part, Size: info.Size(), Mode: 0o600, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if err := copyInto(out, filepath.Join(dir, part)); err != nil {
			return err
		}
	}
	return out.Close()
}
