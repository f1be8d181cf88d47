// Package restore replaces the log of a data directory by a backup, a bundle, an
// export, or what several of them, EVENTS and a damaged ledger.db have together. It
// reads and verifies everything before it replaces anything.
package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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
	Report

	write func(ctx context.Context, to string) error // makes a new ledger.db with the whole log

	old     *bolt.Store    // the directory's log, locked; nil if missing or unreadable
	closers []func() error // of what was opened, the directory's lock first
	work    *datadir.Scratch

	// Of events that are collected, else zero: a backup is copied as it is.
	parts   []*part
	own     bool   // the directory's own ledger.db is a part: all that is readable of it is taken
	brought bool   // the checkpoint was checked only with the key that came with it
	rest    string // file with the events after Options.Until, "" for none

	erased map[string]struct{} // ids of payments: see findErasures

	signed   []byte               // the directory's newest checkpoint, nil for none
	expected *translog.Checkpoint // what it says
	forged   bool                 // expected does not match the backup's events
	lost     bool                 // the directory has data that the backup lacks
	other    bool                 // payments have details that they had not, or the other way round
	stamp    string
}

// Options say what to restore.
type Options struct {
	File string   `arg:"" help:"Backup, bundle or export in JSON Lines to restore; or, as for --then, EVENTS."`
	Then []string `help:"What has the events that FILE lacks: an export or bundle, a ledger.db or backup (damaged or not), a directory of JetStream, or EVENTS, the directory's own or that of --nats-url; may be given more than once." placeholder:"EVENTS|FILE" sep:"none"`
	cli.NATSURLFlags
	Until       eventstore.Position `help:"Restore the events up to here only. Readable ones after it are saved in a file." placeholder:"POSITION"`
	Keys        string              `help:"File with the keys, as \"backup --with-keys\" wrote it. Default: FILE.keys, if it is there." placeholder:"FILE"`
	Force       bool                `help:"Restore although the directory's log has events that FILE lacks, or is another log, or no checkpoint proves FILE. Replaced files are renamed."`
	Checkpoint  []string            `help:"Signed checkpoint that proves an export; may be given more than once. Those of a bundle and of the directory need not be named." placeholder:"FILE"`
	VerifierKey []string            `help:"Verifier key of the checkpoints, or a file that holds it; may be given more than once. Default: that of the directory, or of the bundle." placeholder:"KEY|FILE" sep:"none"`

	Actor  string       `kong:"-"` // who restores, for the log
	Bus    bus.External `kong:"-"` // whose EVENTS Events means; none: the directory's own
	Stderr io.Writer    `kong:"-"`
}

// Report is the result of a restore. If it was refused because of Findings, nothing
// was restored.
type Report struct {
	Data     datadir.Dir         `json:"data"`
	Log      domain.ID           `json:"log"`
	Position eventstore.Position `json:"position"`
	Events   eventstore.Position `json:"events"`
	Proved   eventstore.Position `json:"proved,omitzero"` // a checkpoint proves the events up to here
	Erased   int                 `json:"erased,omitzero"` // payments whose details were left out: events that are not restored erase them
	Sources  []Source            `json:"sources,omitempty"`
	Findings []audit.Finding     `json:"findings,omitempty"` // why it was refused
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
func Run(ctx context.Context, d datadir.Dir, o Options) (report Report, err error) {
	r := &restoring{
		Options: o, Report: Report{Data: d},
		stamp: ".replaced-" + time.Now().UTC().Format("20060102T150405.000Z"),
	}
	pack, err := o.readKeys()
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.hold(); err != nil {
		return report, err
	}
	if err = r.open(ctx, pack); err == nil {
		err = r.run(ctx, pack)
	}
	r.Events = r.Position
	for _, p := range r.parts {
		if len(r.parts) > 1 {
			r.Sources = append(r.Sources, Source{p.name, p.events, p.trouble})
		}
	}
	return r.Report, err
}

func (r *restoring) close() (err error) {
	if r.work != nil {
		err = r.work.Remove()
	}
	for _, end := range slices.Backward(r.closers) {
		err = errors.Join(err, end())
	}
	return err
}

func (r *restoring) run(ctx context.Context, pack datadir.KeyPack) (err error) {
	keys, err := r.Data.PlanKeys(pack)
	if err != nil {
		return err
	}
	losses := r.losses(ctx)
	if len(keys.Differ) > 0 {
		losses = append(losses, "its "+strings.Join(keys.Differ, " and ")+" would be replaced by another")
	}
	if err := r.mayLose(losses); err != nil {
		return err
	}
	// The server would not start with the key of another log. One that cannot be read it explains.
	if key, err := r.logKey(pack); err == nil && key != nil && key.Origin() != translog.Origin(r.Log) {
		return cli.Errorf(cli.ExitDirectory, "%s would be left with the key of another log, %s: put the log.key and master.key that belong to the backup there, "+
			"or name a file of keys with --keys, then restore again", r.Data, key.Origin())
	}
	if err := os.MkdirAll(string(r.Data), 0o700); err != nil {
		return cli.Errorf(cli.ExitDirectory, "making %s: %w", r.Data, err)
	}
	if err := r.findErasures(ctx); err != nil {
		return err
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
	if err := r.put(ctx, tmp, keys); err != nil {
		return fmt.Errorf("putting the log in place: %w", err)
	}
	return nil
}

// readKeys reads the file of keys, if any, before anything is changed.
func (o Options) readKeys() (pack datadir.KeyPack, err error) {
	name := o.Keys
	if _, err := os.Lstat(datadir.KeysFileOf(o.File)); name == "" && err == nil {
		name = datadir.KeysFileOf(o.File)
	}
	if name != "" {
		pack, err = datadir.ReadKeys(name)
	}
	return pack, err
}

// logKey is the log.key that the directory will have after the restore; nil for none.
func (r *restoring) logKey(pack datadir.KeyPack) (*translog.Signer, error) {
	text, ok := pack.Files[filepath.Base(r.Data.LogKey())]
	if !ok {
		if !datadir.Exists(r.Data.LogKey()) {
			return nil, nil // the server's start explains how to make one
		}
		return r.Data.ReadLogKey()
	}
	s, err := translog.ParseSigner(text)
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "the log.key in the file of keys: %w", err)
	}
	return s, nil
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
	if err := errors.Join(r.Data.MustBeOwn(), r.readExpected()); err != nil {
		return err
	}
	var err error
	if r.old, err = bolt.Open(path, bolt.Options{}); err == nil {
		r.closers = append(r.closers, func() error {
			err := r.old.Close()
			if errors.As(err, new(*bolt.ReplacedError)) { // on purpose
				return nil
			}
			return err
		})
		return nil
	}
	switch {
	case errors.Is(err, bolt.ErrMissing):
		return r.Data.HoldsOnly(slices.Concat(r.Data.Files(), r.Then, []string{r.File, r.Keys}), "a data directory, a new or an empty one")
	case errors.Is(err, bolt.ErrLocked):
		return cli.Errorf(cli.ExitInUse, "a payledger runs on %s: stop it first", r.Data)
	}
	unreadable := err
	release, err := bolt.Hold(path)
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "the existing log cannot be replaced: %w", errors.Join(unreadable, err))
	}
	r.closers = append(r.closers, release)
	fmt.Fprintf(r.Stderr, "payledger: the existing log cannot be read: %v\n", unreadable)
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
		case r.old.LogID() != r.Log && !r.own:
			all = append(all, fmt.Sprintf("its log is another one: %s, the backup is of %s", r.old.LogID(), r.Log))
		case last > r.Position:
			all = append(all, fmt.Sprintf("its log has %d events, the backup %d: the last %d would be gone", last, r.Position, last-r.Position))
		}
	} else if _, err := os.Lstat(r.Data.Ledger()); err == nil && !r.own {
		all = append(all, "its log cannot be read, so it is unknown what the backup lacks")
	}
	return append(all, r.behind()...)
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
	advice := "With --force it is moved aside and the backup takes its place"
	if r.old == nil || r.old.LogID() == r.Log {
		advice += fmt.Sprintf("; --then %s adds all of it that can be read", r.Data.Ledger())
	}
	return cli.Errorf(cli.ExitRefused, "%s was left as it is: %s. %s", r.Data, strings.Join(losses, "; "), advice)
}

// copy copies the log into the directory under a temporary name and verifies the
// copy, which is the file that put renames.
func (r *restoring) copy(ctx context.Context, to string) error {
	if err := r.write(ctx, to); err != nil {
		return refuseFile(r.File, err)
	}
	each, losses := r.compare(ctx)
	log, last, err := datadir.VerifyFile(ctx, to, cli.Progress(r.Stderr, "Checking the copy"), each)
	lost := losses()
	if err != nil {
		return refuseFile(r.File, err)
	}
	if last != r.Position || log != r.Log {
		return fmt.Errorf("%s changed while it was copied: try again", r.File)
	}
	return r.mayLose(lost)
}

// refuseFile explains why a backup cannot be restored.
func refuseFile(name string, err error) error {
	var corrupt *eventstore.CorruptError
	detail := ""
	if open, ok := errors.AsType[*bolt.OpenError](err); ok && open.Detail != "" {
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
