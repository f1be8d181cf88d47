package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
)

// restoreSource is a log to restore: a backup or an export.
type restoreSource struct {
	file  string
	log   domain.ID
	last  eventstore.Position
	write func(to string) error // a new ledger.db with all of it
	close func() error
}

// open opens what the command names.
func (c restoreCmd) open(a *app, pack keyPack) (restoreSource, error) {
	x := exportToRestore{app: a, restoreCmd: c}
	var err error
	if x.bundle, err = openBundle(c.File); err != nil {
		return restoreSource{}, err
	}
	if x.bundle != nil || isLines(c.File) {
		return x.open(pack)
	}
	if len(c.Checkpoint)+len(c.VerifierKey) > 0 {
		return restoreSource{}, exitWith(exitUsage, "--checkpoint and --verifier-key prove an export; check a backup with \"payledger verify\"")
	}
	return openBackup(a, c.File)
}

func openBackup(a *app, file string) (s restoreSource, err error) {
	backup, err := bolt.OpenReadOnly(file)
	if err != nil {
		return s, refuseFile(file, err)
	}
	// It is held while it is copied.
	s = restoreSource{file: file, log: backup.LogID(), close: backup.Close}
	if s.last, err = backup.Last(a.ctx); err != nil {
		return s, errors.Join(err, backup.Close())
	}
	s.write = func(to string) error {
		err := copyFile(file, to, func(w io.Writer, size int64) io.Writer { return copying(w, a.stderr, s.last, size) })
		if err != nil {
			return fmt.Errorf("copying the backup: %w", err)
		}
		return nil
	}
	return s, nil
}

// isLines reports whether a file begins like an export in JSON Lines.
func isLines(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false // who opens it next says why
	}
	defer f.Close() //nolint:errcheck // only read
	head := make([]byte, len(linesBegin))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == linesBegin
}

const linesBegin = `{"position":`

// exportToRestore is a bundle or an export in JSON Lines. It has no checksums
// of its own, so a checkpoint has to prove it.
type exportToRestore struct {
	*app
	restoreCmd

	bundle *bundle // nil: lines
	log    domain.ID
	own    bool // only the key in the bundle vouches for its checkpoint
}

func (x exportToRestore) open(pack keyPack) (s restoreSource, err error) {
	o := audit.Options{Codec: eventstore.NewCodec(), Bare: true, Progress: newProgress(x.stderr, "Checking the export")}
	if err := x.prepare(&o, pack); err != nil {
		return s, err
	}
	var report *audit.Report
	err = x.events(func(r io.Reader) error {
		report, err = audit.Check(x.ctx, audit.Lines(r), o)
		return err
	})
	if err != nil {
		return s, openFailed(err)
	}
	if detail := x.wrong(report); detail != "" {
		return s, exitWith(exitDirectory, "%s cannot be restored: %s. It has to be a whole export, without --project and --after; "+
			"one that was interrupted is finished with \"payledger export --resume\". Nothing was changed", x.File, detail)
	}
	if err := x.mayTrust(report); err != nil {
		return s, err
	}
	return restoreSource{
		file: x.File, log: x.log, last: report.Last,
		write: func(to string) error { return x.write(to, report.Last) },
		close: func() error { return nil },
	}, nil
}

// wrong says what is wrong with the export. That it differs from the directory's
// checkpoint is not wrong: it is counted among the losses of the restore.
func (x exportToRestore) wrong(r *audit.Report) string {
	for _, f := range r.Findings {
		if f.Checkpoint == dataDir(x.Data).checkpoint() {
			continue
		}
		return f.String()
	}
	return ""
}

// events opens the lines.
func (x exportToRestore) events(fn func(io.Reader) error) error {
	if x.bundle != nil {
		return x.bundle.each(func(name string, _ int64, r io.Reader) error {
			if name != bundleEvents {
				return nil
			}
			return fn(r)
		})
	}
	f, err := os.Open(x.File)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	return fn(f)
}

// prepare gathers the checkpoints and the keys that open them, and finds out
// whose log it is.
func (x *exportToRestore) prepare(o *audit.Options, pack keyPack) error {
	q, err := verifyCmd{Checkpoint: x.Checkpoint, VerifierKey: x.VerifierKey}.request("", true)
	if err != nil {
		return err
	}
	for _, p := range q.Checkpoints {
		o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: p.Name, Signed: []byte(p.Note)})
	}
	for _, text := range q.VerifierKeys {
		v, err := translog.ParseVerifier(text)
		if err != nil {
			return exitWith(exitUsage, "--verifier-key: %w", err)
		}
		o.Verifiers = append(o.Verifiers, v)
	}
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

// directoryKey is the verifier key of the log.key that the directory has, or
// will have; nil for none.
func (x *exportToRestore) directoryKey(pack keyPack) (*translog.Verifier, error) {
	d := dataDir(x.Data)
	text, ok := pack.Files[filepath.Base(d.logKey())]
	if !ok {
		own, err := d.ownVerifierKey()
		if err != nil || own == "" {
			return nil, err
		}
		return translog.ParseVerifier(own)
	}
	s, err := translog.ParseSigner(text)
	if err != nil {
		return nil, exitWith(exitDirectory, "the log.key in the file of keys: %w", err)
	}
	return translog.ParseVerifier(s.VerifierKey())
}

func (x *exportToRestore) prepareBundle(o *audit.Options) error {
	in, err := x.bundle.survey()
	if err != nil {
		return openFailed(err)
	}
	var stated manifest
	if faults := readManifest(in, &stated); len(faults) > 0 {
		return exitWith(exitDirectory, "%s cannot be restored: %s: %s; one that was interrupted is finished with \"payledger export --resume\". Nothing was changed",
			x.File, bundleManifest, strings.Join(faults, "; "))
	}
	x.log = stated.LogID
	o.Total = eventstore.Position(stated.Events)
	o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: x.bundle.checkpointName(), Signed: in.small[bundleCheckpoint]})
	if len(o.Verifiers) == 0 {
		v, err := translog.ParseVerifier(string(in.small[bundleKey]))
		if err != nil {
			return exitWith(exitDirectory, "%s: %s: %w", x.File, bundleKey, err)
		}
		o.Verifiers, x.own = append(o.Verifiers, v), true
	}
	return nil
}

// prepareLines: lines do not say of which log they are.
func (x *exportToRestore) prepareLines(o *audit.Options, key *translog.Verifier) error {
	if len(o.Verifiers) == 0 {
		return exitWith(exitDirectory, "%s does not say of which log it is: put the log.key that belongs to it into %s, name a file of keys with --keys, "+
			"or give the verifier key with --verifier-key. A bundle (\"payledger export --format bundle\") says it itself", x.File, x.Data)
	}
	id, ok := translog.LogOf(o.Verifiers[0].Origin())
	if !ok {
		return exitWith(exitUsage, "the verifier key is that of %s, which is no log of payledger", o.Verifiers[0].Origin())
	}
	x.log = id
	beside := dataDir(x.Data).checkpoint()
	b, err := os.ReadFile(beside)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return exitWith(exitDirectory, "%w", err)
	case key == nil || key.Origin() != translog.Origin(id):
		return nil // of another log: what that loses is looked at later
	}
	for _, v := range o.Verifiers {
		if _, err := v.Open(b); err == nil {
			o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: beside, Signed: b})
			return nil
		}
	}
	return nil
}

// mayTrust refuses events that no checkpoint proves, unless somebody has agreed.
func (x exportToRestore) mayTrust(r *audit.Report) error {
	var proved eventstore.Position
	for _, c := range r.Checkpoints {
		if c.Outcome == audit.OK {
			proved = max(proved, eventstore.Position(c.Size))
		}
	}
	unproved := fmt.Sprintf("no checkpoint proves the last %d of the %d events in %s", r.Last-proved, r.Last, x.File)
	switch {
	case proved < r.Last && !x.Force:
		return exitWith(exitRefused, "%s: give one that was signed later with --checkpoint, or a bundle; with --force they are taken as they are", unproved)
	case proved < r.Last:
		fmt.Fprintf(x.stderr, "payledger: %s\n", unproved)
	case x.own:
		fmt.Fprintf(x.stderr, "payledger: the checkpoint of %s was checked with the key that came with it; --verifier-key checks it with yours\n", x.File)
	}
	return nil
}

// write makes the ledger.db.
func (x exportToRestore) write(to string, last eventstore.Position) error {
	show := newProgress(x.stderr, "Writing the log")
	return x.events(func(r io.Reader) error {
		_, err := bolt.Build(x.ctx, to, x.log, claimed(audit.Lines(r)(0), func(at eventstore.Position) { show(at, last) }))
		return err
	})
}

// claimed adds to records what their events tell and exported lines do not.
func claimed(lines iter.Seq2[eventstore.Stored, error], told func(eventstore.Position)) iter.Seq2[eventstore.Stored, error] {
	codec := eventstore.NewCodec()
	return func(yield func(eventstore.Stored, error) bool) {
		for r, err := range lines {
			var version int
			if err == nil {
				r.Event, version, err = codec.DecodeVersion(r)
			}
			if err == nil {
				r.Claim = eventstore.ClaimOf(r.Event, version)
				told(r.Position)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}
