package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/export"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
)

// source is a log to restore: a backup or an export.
type source struct {
	file  string
	log   domain.ID
	last  eventstore.Position
	write func(ctx context.Context, to string) error // makes a new ledger.db with the whole log
	close func() error
}

// open opens the file to restore.
func (o Options) open(ctx context.Context, pack datadir.KeyPack) (source, error) {
	x := exported{Options: o}
	var err error
	if x.bundle, err = export.OpenBundle(o.File); err != nil {
		return source{}, err
	}
	if x.bundle != nil || export.IsJSONLines(o.File) {
		return x.open(ctx, pack)
	}
	if len(o.Checkpoints)+len(o.VerifierKeys) > 0 {
		return source{}, cli.Errorf(cli.ExitUsage, "--checkpoint and --verifier-key prove an export; check a backup with \"payledger verify\"")
	}
	return openBackup(ctx, o.File, o.Stderr)
}

func openBackup(ctx context.Context, file string, stderr io.Writer) (s source, err error) {
	backup, err := bolt.OpenReadOnly(file)
	if err != nil {
		return s, refuseFile(file, err)
	}
	// The backup stays locked while it is copied.
	s = source{file: file, log: backup.LogID(), close: backup.Close}
	if s.last, err = backup.Last(ctx); err != nil {
		return s, errors.Join(err, backup.Close())
	}
	s.write = func(_ context.Context, to string) error {
		err := datadir.CopyFile(file, to, func(w io.Writer, size int64) io.Writer { return cli.CopyProgress(w, stderr, s.last, size) })
		if err != nil {
			return fmt.Errorf("copying the backup: %w", err)
		}
		return nil
	}
	return s, nil
}

// exported is a bundle or an export in JSON Lines. Its lines have no checksums, so
// a checkpoint must prove them.
type exported struct {
	Options

	bundle *export.Bundle // nil: JSON Lines
	log    domain.ID
	own    bool // the checkpoint was checked only with the key in the bundle
}

func (x exported) open(ctx context.Context, pack datadir.KeyPack) (s source, err error) {
	o := audit.Options{Codec: eventstore.NewCodec(), Bare: true, Progress: cli.Progress(x.Stderr, "Checking the export")}
	if err := x.prepare(&o, pack); err != nil {
		return s, err
	}
	var report *audit.Report
	err = x.events(func(r io.Reader) error {
		report, err = audit.Check(ctx, audit.Lines(r), o)
		return err
	})
	if err != nil {
		return s, export.OpenFailed(err)
	}
	if detail := x.wrong(report); detail != "" {
		return s, cli.Errorf(cli.ExitDirectory, "%s cannot be restored: %s. It has to be a whole export, without --project and --after. "+
			"Nothing was changed", x.File, detail)
	}
	if err := x.mayTrust(report); err != nil {
		return s, err
	}
	return source{
		file: x.File, log: x.log, last: report.Last,
		write: func(ctx context.Context, to string) error { return x.write(ctx, to, report.Last) },
		close: func() error { return nil },
	}, nil
}

// wrong describes the export's first fault, "" for none. A mismatch with the
// directory's checkpoint is not a fault of the export: it is treated as a loss.
func (x exported) wrong(r *audit.Report) string {
	for _, f := range r.Findings {
		if f.Checkpoint == x.Data.Checkpoint() {
			continue
		}
		return f.String()
	}
	return ""
}

// events calls fn with the lines.
func (x exported) events(fn func(io.Reader) error) error {
	if x.bundle != nil {
		return x.bundle.Events(fn)
	}
	f, err := os.Open(x.File)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // opened only for reading
	return fn(f)
}

// prepare collects the checkpoints and the keys that open them, and finds the
// log's id.
func (x *exported) prepare(o *audit.Options, pack datadir.KeyPack) error {
	given, err := datadir.ReadTrustAnchors(x.Checkpoints, x.VerifierKeys)
	if err != nil {
		return err
	}
	o.Checkpoints, o.Verifiers = given.Checkpoints, given.Verifiers
	key, err := x.directoryKey(pack)
	if err != nil {
		return err
	}
	if key != nil && len(o.Verifiers) == 0 {
		o.Verifiers = append(o.Verifiers, key)
	}
	if x.bundle != nil {
		err = x.prepareBundle(o)
	} else {
		err = x.prepareLines(o, key)
	}
	o.Origin = translog.Origin(x.log)
	return err
}

// directoryKey is the verifier key of the log.key that the directory will have
// after the restore; nil for none.
func (x *exported) directoryKey(pack datadir.KeyPack) (*translog.Verifier, error) {
	d := x.Data
	text, ok := pack.Files[filepath.Base(d.LogKey())]
	if !ok {
		own, err := d.OwnVerifierKey()
		if err != nil || own == "" {
			return nil, err
		}
		return translog.ParseVerifier(own)
	}
	s, err := translog.ParseSigner(text)
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "the log.key in the file of keys: %w", err)
	}
	return translog.ParseVerifier(s.VerifierKey())
}

func (x *exported) prepareBundle(o *audit.Options) error {
	in, err := x.bundle.Survey()
	if err != nil {
		return export.OpenFailed(err)
	}
	var stated export.Manifest
	if faults := export.ReadManifest(in, &stated); len(faults) > 0 {
		return cli.Errorf(cli.ExitDirectory, "%s cannot be restored: %s: %s. It has to be a whole bundle. Nothing was changed",
			x.File, export.ManifestFile, strings.Join(faults, "; "))
	}
	x.log = stated.LogID
	o.Total = eventstore.Position(stated.Events)
	o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: x.bundle.CheckpointName(), Signed: in.Small[export.CheckpointFile]})
	if len(o.Verifiers) == 0 {
		v, err := translog.ParseVerifier(string(in.Small[export.KeyFile]))
		if err != nil {
			return cli.Errorf(cli.ExitDirectory, "%s: %s: %w", x.File, export.KeyFile, err)
		}
		o.Verifiers, x.own = append(o.Verifiers, v), true
	}
	return nil
}

// prepareLines takes the log's id from a key, because lines do not contain it.
func (x *exported) prepareLines(o *audit.Options, key *translog.Verifier) error {
	if len(o.Verifiers) == 0 {
		return cli.Errorf(cli.ExitDirectory, "%s does not say of which log it is: put the log.key that belongs to it into %s, name a file of keys with --keys, "+
			"or give the verifier key with --verifier-key. A bundle (\"payledger export --format bundle\") says it itself", x.File, x.Data)
	}
	id, ok := translog.LogOf(o.Verifiers[0].Origin())
	if !ok {
		return cli.Errorf(cli.ExitUsage, "the verifier key is that of %s, which is no log of payledger", o.Verifiers[0].Origin())
	}
	x.log = id
	beside := x.Data.Checkpoint()
	b, err := os.ReadFile(beside)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	case key == nil || key.Origin() != translog.Origin(id):
		return nil // of another log, which is treated as a loss
	}
	for _, v := range o.Verifiers {
		if _, err := v.Open(b); err == nil {
			o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: beside, Signed: b})
			return nil
		}
	}
	return nil
}

// mayTrust returns an error if no checkpoint proves all events, unless Force is
// set.
func (x exported) mayTrust(r *audit.Report) error {
	var proved eventstore.Position
	for _, c := range r.Checkpoints {
		if c.Outcome == audit.OK {
			proved = max(proved, eventstore.Position(c.Size))
		}
	}
	unproved := fmt.Sprintf("no checkpoint proves the last %d of the %d events in %s", r.Last-proved, r.Last, x.File)
	switch {
	case proved < r.Last && !x.Force:
		return cli.Errorf(cli.ExitRefused, "%s: give one that was signed later with --checkpoint, or a bundle; with --force they are taken as they are", unproved)
	case proved < r.Last:
		fmt.Fprintf(x.Stderr, "payledger: %s\n", unproved)
	case x.own:
		fmt.Fprintf(x.Stderr, "payledger: the checkpoint of %s was checked with the key that came with it; --verifier-key checks it with yours\n", x.File)
	}
	return nil
}

// write makes the ledger.db.
func (x exported) write(ctx context.Context, to string, last eventstore.Position) error {
	show := cli.Progress(x.Stderr, "Writing the log")
	return x.events(func(r io.Reader) error {
		_, err := bolt.Build(ctx, to, x.log, claimed(audit.Lines(r)(0), func(at eventstore.Position) { show(at, last) }))
		return err
	})
}

// claimed adds the decoded event and its claim to the records of exported lines,
// which have none. It calls show with each position.
func claimed(lines iter.Seq2[eventstore.Stored, error], show func(eventstore.Position)) iter.Seq2[eventstore.Stored, error] {
	codec := eventstore.NewCodec()
	return func(yield func(eventstore.Stored, error) bool) {
		for r, err := range lines {
			var version int
			if err == nil {
				r.Event, version, err = codec.DecodeVersion(r)
			}
			if err == nil {
				r.Claim = eventstore.ClaimOf(r.Event, version)
				show(r.Position)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}
