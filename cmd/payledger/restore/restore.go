// Package restore replaces the log of a data directory by a backup, a bundle, an
// export, or what several of them, EVENTS and a damaged ledger.db have together. It
// reads and verifies everything before it replaces anything.
package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
	"payledger/notifier/bus"
)

// restoring is the state of a running restore.
type restoring struct {
	Options
	source

	old     *bolt.Store  // the directory's log, locked; nil if missing or unreadable
	release func() error // unlocks the directory

	expected *expectedCheckpoint // the directory's newest checkpoint, nil for none
	forged   bool                // expected does not match the backup's events
	lost     bool                // the directory has data that the backup lacks
	aside    []string
	stamp    string
}

// Options say what to restore, and into which directory.
type Options struct {
	Data         datadir.Dir
	Actor        string              // who restores, for the log
	File         string              // a backup, a bundle, an export in JSON Lines or what Then names
	Then         []string            // what completes File: the same, damaged ledger.db files, Events or directories of JetStream
	NATS         bus.External        // whose EVENTS Events means; none: the directory's own
	Until        eventstore.Position // the last event to restore; 0: all
	Keys         string              // a file of keys; "": the one next to File, if it exists
	Force        bool                // replace a log with data that File lacks
	Checkpoints  []string            // files of checkpoints that prove an export
	VerifierKeys []string            // their keys, or files that hold them
	Stderr       io.Writer
}

// Report is the result of a restore. If it was refused because of Findings, nothing
// was restored.
type Report struct {
	Data     datadir.Dir         `json:"data"`
	Log      domain.ID           `json:"log"`
	Position eventstore.Position `json:"position"`
	Events   eventstore.Position `json:"events"`
	Proved   eventstore.Position `json:"proved,omitzero"` // a checkpoint proves the events up to here
	Sources  []Source            `json:"sources,omitempty"`
	Findings []audit.Finding     `json:"findings,omitempty"`
	Lacking  []audit.Lack        `json:"lacking,omitempty"`
	Kept     []string            `json:"kept,omitempty"` // second names of what was replaced, and what was left out
}

// Source says what was found in one of several sources.
type Source struct {
	Name    string `json:"name"`
	Events  int    `json:"events"`
	Trouble string `json:"trouble,omitempty"`
}

// Run replaces the directory's log by what the sources have, after it has verified
// all of it.
func Run(ctx context.Context, o Options) (report Report, err error) {
	r := &restoring{
		Options: o,
		release: func() error { return nil },
		stamp:   ".replaced-" + time.Now().UTC().Format("20060102T150405.000Z"),
	}
	pack, err := o.readKeys()
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, r.release()) }()
	if err := r.hold(); err != nil {
		return report, err
	}
	r.source, err = o.open(ctx, pack)
	if r.close != nil {
		defer func() { err = errors.Join(err, r.close()) }()
	}
	if err == nil {
		err = r.run(ctx, pack)
	}
	return r.report(), err
}

func (r *restoring) report() Report {
	out := Report{Data: r.Data, Log: r.log, Position: r.last, Events: r.last, Kept: r.aside}
	if c := r.collected; c != nil {
		out.Proved, out.Findings, out.Lacking = c.proved, c.findings, c.lacking
		for _, p := range c.parts {
			if len(c.parts) > 1 {
				out.Sources = append(out.Sources, Source{p.name, p.events, p.trouble})
			}
		}
	}
	return out
}

func (r *restoring) run(ctx context.Context, pack datadir.KeyPack) (err error) {
	keys, err := r.Data.PlanKeys(pack)
	if err != nil {
		return err
	}
	if err := r.mayLose(r.losses(ctx)); err != nil {
		return err
	}
	if len(keys.Differ) > 0 {
		if err := r.mayLose([]string{"its " + strings.Join(keys.Differ, " and ") + " would be replaced by another"}); err != nil {
			return err
		}
	}
	if err := r.mayServe(keys); err != nil {
		return err
	}
	if err := os.MkdirAll(string(r.Data), 0o700); err != nil {
		return cli.Errorf(cli.ExitDirectory, "making %s: %w", r.Data, err)
	}
	work, err := datadir.NewScratch(string(r.Data), r.Data.Files()...)
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	tmp := work.File("ledger.db")
	if err := r.copy(ctx, tmp); err != nil {
		return err
	}
	if err := r.put(tmp, keys); err != nil {
		return fmt.Errorf("putting the log in place: %w", err)
	}
	return nil
}

// readKeys reads the file of keys, if any, before anything is changed.
func (o Options) readKeys() (pack datadir.KeyPack, err error) {
	name := o.Keys
	if name == "" {
		if _, err := os.Lstat(datadir.KeysFileOf(o.File)); err == nil {
			name = datadir.KeysFileOf(o.File)
		}
	}
	if name != "" {
		pack, err = datadir.ReadKeys(name)
	}
	return pack, err
}

// mayServe returns an error if the log.key is of another log: the server would not
// start with it.
func (r *restoring) mayServe(keys datadir.KeyPlan) error {
	text, ok := keys.Put[filepath.Base(r.Data.LogKey())]
	if !ok {
		b, err := os.ReadFile(r.Data.LogKey())
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the server's start explains how to make one
		}
		if err != nil {
			return cli.Errorf(cli.ExitDirectory, "%w", err)
		}
		text = string(b)
	}
	s, err := translog.ParseSigner(text)
	if err == nil && s.Origin() != translog.Origin(r.log) {
		return cli.Errorf(cli.ExitDirectory, "%s would be left with the key of another log, %s: put the log.key and master.key that belong to the backup there, "+
			"or name a file of keys with --keys, then restore again", r.Data, s.Origin())
	}
	return nil
}

// hold locks the directory, and opens its log if it is readable.
func (r *restoring) hold() error {
	path := r.Data.Ledger()
	if datadir.SameFile(path, r.File) && len(r.Then) == 0 && r.Until == 0 {
		return cli.Errorf(cli.ExitUsage, "%s is the directory's own log: name a backup, or with --then what completes it", r.File)
	}
	if r.Data.Clustered() {
		return cli.Errorf(cli.ExitDirectory, "%s is a node of a cluster: without its ledger.db, \"payledger serve\" takes the log of another node; "+
			"to go back to a backup, take the directory out of its cluster first, with \"payledger cluster leave\"", r.Data)
	}
	if err := r.readExpected(); err != nil {
		return err
	}
	var err error
	if r.old, err = bolt.Open(path, bolt.Options{}); err == nil {
		r.release = func() error {
			err := r.old.Close()
			if errors.As(err, new(*bolt.ReplacedError)) { // on purpose
				return nil
			}
			return err
		}
		return nil
	}
	switch {
	case errors.Is(err, bolt.ErrMissing):
		return r.vacant()
	case errors.Is(err, bolt.ErrLocked):
		return cli.Errorf(cli.ExitInUse, "a payledger runs on %s: stop it first", r.Data)
	}
	unreadable := err
	release, err := bolt.Hold(path)
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "the existing log cannot be replaced: %w", errors.Join(unreadable, err))
	}
	r.release = release
	fmt.Fprintf(r.Stderr, "payledger: the existing log cannot be read: %v\n", unreadable)
	return nil
}

// vacant checks that a directory without a log is a data directory or empty.
func (r *restoring) vacant() error {
	if err := datadir.Sweep(string(r.Data), r.Data.Files()...); err != nil {
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	entries, err := os.ReadDir(string(r.Data))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cli.Errorf(cli.ExitDirectory, "looking into %s: %w", r.Data, err)
	}
	for _, e := range entries {
		if !r.Data.Owns(e.Name()) {
			return cli.Errorf(cli.ExitDirectory, "%s holds other files (%s): choose a data directory, a new or an empty one", r.Data, e.Name())
		}
	}
	return nil
}

// losses lists what the directory has and the backup lacks, as far as it can be
// found without reading the events.
func (r *restoring) losses(ctx context.Context) []string {
	var all []string
	if r.old != nil {
		last, err := r.old.Last(ctx)
		switch {
		case err != nil:
			all = append(all, err.Error())
		case r.old.LogID() != r.log && !r.takesOwn():
			all = append(all, fmt.Sprintf("its log is another one: %s, the backup is of %s", r.old.LogID(), r.log))
		case last > r.last:
			all = append(all, fmt.Sprintf("its log has %d events, the backup %d: the last %d would be gone", last, r.last, last-r.last))
		}
	} else if _, err := os.Lstat(r.Data.Ledger()); err == nil && !r.takesOwn() {
		all = append(all, "its log cannot be read, so it is unknown what the backup lacks")
	}
	return append(all, r.expected.losses(r.log, r.last)...)
}

// mayLose returns an error if there are losses, unless Force is set.
func (r *restoring) mayLose(losses []string) error {
	switch {
	case len(losses) == 0:
		return nil
	case r.Force:
		r.lost = true
		for _, l := range losses {
			fmt.Fprintf(r.Stderr, "payledger: %s: %s\n", r.Data, l)
		}
		return nil
	}
	return cli.Errorf(cli.ExitRefused, "%s was left as it is: %s. With --force it is moved aside and the backup takes its place; --then %s adds all of it that can be read",
		r.Data, strings.Join(losses, "; "), r.Data.Ledger())
}

// takesOwn reports whether all that is readable of the directory's own log is taken.
func (r *restoring) takesOwn() bool { return r.collected != nil && r.collected.own }

// copy copies the log into the directory under a temporary name and verifies the
// copy, which is the file that put renames.
func (r *restoring) copy(ctx context.Context, to string) error {
	if err := r.write(ctx, to); err != nil {
		return refuseFile(r.File, err)
	}
	comparison := r.compare(ctx)
	p, err := datadir.VerifyFile(ctx, to, cli.Progress(r.Stderr, "Checking the copy"), comparison.next)
	comparison.stop()
	if err != nil {
		return refuseFile(r.File, err)
	}
	if p.Last != r.last || p.Log != r.log {
		return fmt.Errorf("%s changed while it was copied: try again", r.File)
	}
	r.forged = comparison.forged
	return r.mayLose(comparison.losses(r.takesOwn()))
}

// refuseFile explains why a backup cannot be restored.
func refuseFile(name string, err error) error {
	var open *bolt.OpenError
	var corrupt *eventstore.CorruptError
	detail := ""
	if errors.As(err, &open) && open.Detail != "" {
		detail = " (" + open.Detail + ")"
	}
	switch {
	case errors.Is(err, bolt.ErrMissing):
		return cli.Errorf(cli.ExitDirectory, "%s: there is no such file", name)
	case errors.Is(err, bolt.ErrForeign):
		return cli.Errorf(cli.ExitDirectory, "%s is not a backup of payledger%s: nothing was changed", name, detail)
	case errors.Is(err, bolt.ErrOutdated):
		return cli.Errorf(cli.ExitDirectory, "%s is in an older format%s: with the version that wrote it restore it into an empty directory and run "+
			"\"payledger export --format bundle --output LOG.tar\" on that, then restore LOG.tar with this one; nothing was changed", name, detail)
	case errors.Is(err, bolt.ErrVersion):
		return cli.Errorf(cli.ExitDirectory, "%s is in a format this payledger does not know%s: use the version that wrote it; nothing was changed", name, detail)
	case errors.Is(err, bolt.ErrLocked):
		return cli.Errorf(cli.ExitInUse, "%s is in use by a running payledger: copy its log with \"payledger backup\"", name)
	case errors.Is(err, bolt.ErrDamaged):
		return cli.Errorf(cli.ExitDirectory, "%s is damaged%s: take another backup, or complete it from what --then names; nothing was changed", name, detail)
	case errors.As(err, &corrupt):
		return cli.Errorf(cli.ExitDirectory, "%s: %w: take another backup, or complete it from what --then names; nothing was changed", name, corrupt)
	}
	return fmt.Errorf("reading %s: %w", name, err)
}
