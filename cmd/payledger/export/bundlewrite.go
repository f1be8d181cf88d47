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
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore/translog"
)

// WriteBundle writes what an auditor needs into a tar file: the events that a fresh
// checkpoint covers, no more and no fewer, the journal of them, the checkpoint and
// the key it is signed with.
func WriteBundle(ctx context.Context, m *cli.Client, d datadir.Dir, output string, stderr io.Writer) (done Done, err error) {
	signed, point, key, err := freshCheckpoint(ctx, m, d)
	if err != nil {
		return done, err
	}
	return done, whenWhole(output, func(unfinished string) error {
		dir := unfinished + ".parts"
		if done, err = writeParts(ctx, m, dir, signed, point, key, stderr); err != nil {
			return err
		}
		return packBundle(unfinished, dir)
	})
}

// writeParts writes the files of a bundle into a new directory.
func writeParts(ctx context.Context, m *cli.Client, dir string, signed []byte, point translog.Checkpoint, key string, stderr io.Writer) (done Done, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return done, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, part := range []struct{ name, format, doing string }{
		{EventsFile, "jsonl", "Exporting events"}, {JournalFile, "hledger", "Writing the journal"},
	} {
		x := Pass{m: m, format: newFormat(part.format), last: point.Size, progress: cli.Progress(stderr, part.doing)}
		written, err := x.create(ctx, file(part.name))
		if err != nil {
			return done, err
		}
		if part.name == EventsFile {
			done = written
		}
	}
	if err := datadir.WriteFileSynced(file(CheckpointFile), signed); err != nil {
		return done, err
	}
	if err := datadir.WriteFileSynced(file(KeyFile), []byte(key+"\n")); err != nil {
		return done, err
	}
	return done, writeManifest(dir, point)
}

// freshCheckpoint asks for a checkpoint and opens it with the directory's key.
func freshCheckpoint(ctx context.Context, m *cli.Client, d datadir.Dir) (signed []byte, point translog.Checkpoint, key string, err error) {
	if key, err = d.OwnVerifierKey(); err != nil {
		return nil, point, "", err
	}
	if key == "" {
		return nil, point, "", cli.Errorf(cli.ExitDirectory, "%s has no log.key, so there is no signed checkpoint to put into a bundle", d)
	}
	verifier, err := translog.ParseVerifier(key)
	if err != nil {
		return nil, point, "", err
	}
	resp, err := m.Send(ctx, http.MethodGet, "/admin/log/checkpoint", nil)
	if err != nil {
		return nil, point, "", err
	}
	defer resp.Body.Close()
	if signed, err = io.ReadAll(io.LimitReader(resp.Body, translog.MaxCheckpoint)); err != nil {
		return nil, point, "", fmt.Errorf("reading the checkpoint: %w", err)
	}
	point, err = verifier.Open(signed)
	return signed, point, key, err
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
