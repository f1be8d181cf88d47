package export

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
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
func WriteBundle(ctx context.Context, m *cli.Client, key string, o Options, stderr io.Writer) (done Done, err error) {
	verifier, err := translog.ParseVerifier(key)
	if err != nil {
		return done, err
	}
	signed, err := m.Text(ctx, "/admin/log/checkpoint", translog.MaxCheckpoint)
	if err != nil {
		return done, err
	}
	point, err := verifier.Open(signed)
	if err != nil {
		return done, err
	}
	err = whenWhole(o.Output, func(unfinished string) error {
		dir := unfinished + ".parts"
		file := func(name string) string { return filepath.Join(dir, name) }
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		for _, part := range []struct{ name, format, doing string }{
			{EventsFile, "jsonl", "Exporting events"}, {JournalFile, "hledger", "Writing the journal"},
		} {
			x := Pass{
				Options: Options{Format: o.Format, Output: o.Output, Details: o.Details && part.name == EventsFile, Progress: cli.Progress(stderr, part.doing)},
				m:       m, format: newFormat(part.format, ""), whole: o.Project, last: point.Size,
			}
			if done, err = x.create(ctx, file(part.name)); err != nil {
				return err
			}
		}
		if err := datadir.WriteFileSynced(file(CheckpointFile), signed); err != nil {
			return err
		}
		if err := datadir.WriteFileSynced(file(KeyFile), []byte(key+"\n")); err != nil {
			return err
		}
		if err := writeManifest(dir, point, o.Project); err != nil {
			return err
		}
		return packBundle(unfinished, dir)
	})
	return done, err
}

// BundleKey is the verifier key for a bundle of the log in a file, or else of a directory's log, and the
// project that the new bundle is of: that of a file which is the bundle of one, or the one asked for.
func BundleKey(ctx context.Context, file string, d datadir.Dir, asked string) (key, project string, err error) {
	if file == "" {
		own, err := d.OwnVerifier()
		if err == nil && own == nil {
			err = cli.Errorf(cli.ExitDirectory, "%s has no log.key, so there is no signed checkpoint to put into a bundle", d)
		}
		if err != nil {
			return "", "", err
		}
		return own.Key(), asked, nil
	}
	b, err := OpenBundle(file)
	if err != nil {
		return "", "", err
	}
	if b == nil {
		return "", "", cli.Errorf(cli.ExitUsage, "%s holds no signed checkpoint to put into a bundle: export it from a data directory, or from a bundle", file)
	}
	in, err := b.Survey(ctx)
	var stated Manifest
	ReadManifest(in, &stated) // what is wrong with it, the export finds
	if stated.Project != "" && asked != "" && asked != stated.Project {
		return "", "", cli.Errorf(cli.ExitUsage, "--project: %s has the events of project %s only: leave this out, or export %s from the data directory or a bundle of the whole log",
			file, stated.Project, asked)
	}
	return strings.TrimSpace(string(in.Small[KeyFile])), cmp.Or(stated.Project, asked), OpenFailed(err)
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
