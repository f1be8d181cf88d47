package restore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/bits"
	"os"
	"path/filepath"
	"slices"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/export"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
)

// collected is a log that is read event by event from one or more sources: backups
// and ledger.db files, damaged or not, exports, bundles, EVENTS. At each position a
// source with the event will do; where two have different ones, it is refused.
// A checkpoint proves the events that it covers. After that, an event in a ledger.db
// or in EVENTS counts, but one that only an export states needs Options.Force, and
// so does one on a page that its ledger.db does not use.
type collected struct {
	Options

	parts   []*part
	log     domain.ID
	own     bool // the directory's own ledger.db is a part
	brought bool // the checkpoint was checked only with the key that came with it
	work    *datadir.Scratch
	closers []func() error

	proved   eventstore.Position // a checkpoint proves the events up to here
	findings []audit.Finding     // why it was refused
	lacking  []audit.Lack
	rest     string // file with the events after Options.Until, "" for none
}

// collect reads all sources and proves their events.
func collect(ctx context.Context, o Options, pack datadir.KeyPack) (source, error) {
	c := &collected{Options: o}
	s := source{collected: c, write: c.write, close: c.close}
	for _, name := range append([]string{o.File}, o.Then...) {
		if err := c.add(ctx, name); err != nil {
			return s, err
		}
	}
	check := audit.Options{Codec: eventstore.NewCodec(), Bare: true, Progress: cli.Progress(o.Stderr, "Checking the events")}
	if err := c.prepare(&check, pack); err != nil {
		return s, err
	}
	m := begin(ctx, c.parts)
	report, err := audit.Check(ctx, m.source(o.Until), check)
	m.stop()
	if err != nil {
		return s, export.OpenFailed(err)
	}
	for _, p := range c.parts {
		if p.trouble != "" {
			fmt.Fprintf(o.Stderr, "payledger: %s: %s\n", p.name, p.trouble)
		}
		if p.last > report.Last {
			report.Add(audit.Finding{
				Kind: audit.Truncated, Position: report.Last + 1, Through: p.last,
				Detail: fmt.Sprintf("the log ends at position %d, %s has %d events", report.Last, p.name, p.last),
			})
		}
	}
	if err := c.mayTake(report); err != nil {
		return s, err
	}
	s.log, s.last = c.log, report.Last
	return s, c.mayTrust(report, m.unproved)
}

func (c *collected) close() (err error) {
	for _, end := range c.closers {
		err = errors.Join(err, end())
	}
	if c.work != nil {
		err = errors.Join(err, c.work.Remove())
	}
	return err
}

// scratch is a directory for copies, in the data directory if that is there.
func (c *collected) scratch() (_ *datadir.Scratch, err error) {
	if c.work == nil {
		dir := string(c.Data)
		if !datadir.Exists(dir) {
			dir = os.TempDir()
		}
		c.work, err = datadir.NewScratch(dir)
	}
	return c.work, err
}

// prepare collects the checkpoints and the keys that open them, and finds the
// log's id.
func (c *collected) prepare(o *audit.Options, pack datadir.KeyPack) error {
	given, err := datadir.ReadTrustAnchors(c.Checkpoints, c.VerifierKeys)
	if err != nil {
		return err
	}
	o.Checkpoints, o.Verifiers = given.Checkpoints, given.Verifiers
	key, err := c.directoryKey(pack)
	if err != nil {
		return err
	}
	if key != nil && len(o.Verifiers) == 0 {
		o.Verifiers = append(o.Verifiers, key)
	}
	for _, p := range c.parts {
		if p.checkpoint == nil {
			continue
		}
		o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: p.name + "/" + export.CheckpointFile, Signed: p.checkpoint})
		if len(o.Verifiers) == 0 {
			v, err := translog.ParseVerifier(string(p.key))
			if err != nil {
				return cli.Errorf(cli.ExitDirectory, "%s: %s: %w", p.name, export.KeyFile, err)
			}
			o.Verifiers, c.brought = append(o.Verifiers, v), true
		}
	}
	if err := c.identify(o.Verifiers); err != nil {
		return err
	}
	o.Origin = translog.Origin(c.log)
	return c.addOwnCheckpoint(o)
}

// addOwnCheckpoint adds the directory's checkpoint, unless it is of another log:
// then it is treated as a loss.
func (c *collected) addOwnCheckpoint(o *audit.Options) error {
	name := c.Data.Checkpoint()
	b, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	for _, v := range o.Verifiers {
		if _, err := v.Open(b); err == nil && v.Origin() == o.Origin {
			o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: name, Signed: b})
			break
		}
	}
	return nil
}

// directoryKey is the verifier key of the log.key that the directory will have
// after the restore; nil for none.
func (c *collected) directoryKey(pack datadir.KeyPack) (*translog.Verifier, error) {
	d := c.Data
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

// identify finds the id of the log, which is the same in all sources that have it.
// Lines do not: then it is that of the key.
func (c *collected) identify(keys []*translog.Verifier) error {
	name := ""
	for _, p := range c.parts {
		switch id := repaired(p.log, keys); {
		case id.IsZero():
		case c.log.IsZero():
			c.log, name = id, p.name
		case c.log != id:
			return cli.Errorf(cli.ExitDirectory, "%s is of the log %s, %s of another log, %s: name the sources of one log only", name, c.log, p.name, id)
		}
	}
	switch {
	case !c.log.IsZero():
		return nil
	case len(keys) == 0:
		return cli.Errorf(cli.ExitDirectory, "%s does not say of which log it is: put the log.key that belongs to it into %s, name a file of keys with --keys, "+
			"or give the verifier key with --verifier-key. A bundle (\"payledger export --format bundle\") says it itself", c.File, c.Data)
	}
	id, ok := translog.LogOf(keys[0].Origin())
	if !ok {
		return cli.Errorf(cli.ExitUsage, "the verifier key is that of %s, which is no log of payledger", keys[0].Origin())
	}
	c.log = id
	return nil
}

// maxDamagedBits is how many bits of the log id in a ledger.db may be wrong: no
// checksum covers it. The ids of two logs differ in some 40 of their random bits.
const maxDamagedBits = 8

// repaired is the id of the log of a key that a damaged id is meant to be.
func repaired(id domain.ID, keys []*translog.Verifier) domain.ID {
	for _, v := range keys {
		of, ok := translog.LogOf(v.Origin())
		wrong := 0
		for i := range of {
			wrong += bits.OnesCount8(id[i] ^ of[i])
		}
		if ok && wrong <= maxDamagedBits {
			return of
		}
	}
	return id
}

// mayTake returns an error if events are missing, damaged or not as they were
// signed. What the directory's own checkpoint says is no fault of the sources: it is
// treated as a loss. With Options.Until, that events after it are missing is agreed.
func (c *collected) mayTake(r *audit.Report) error {
	for _, f := range r.Findings {
		if f.Checkpoint != c.Data.Checkpoint() && (f.Kind != audit.Truncated || c.Until == 0) {
			c.findings = append(c.findings, f)
		}
	}
	switch {
	case len(c.findings) > 0:
	case r.Last < c.Until:
		return cli.Errorf(cli.ExitDirectory, "--until %d: the sources end at position %d. Nothing was changed", c.Until, r.Last)
	case r.Last == 0 && slices.ContainsFunc(c.parts, func(p *part) bool { return p.trouble != "" }):
		return cli.Errorf(cli.ExitDirectory, "nothing of a log can be read in %s. Nothing was changed", c.File)
	default:
		return nil
	}
	c.lacking = r.Lacking
	if len(c.parts) > 1 {
		c.listFaults(r.Found)
	}
	first, advice := c.findings[0], "It has to be a whole export, without --project and --after, or --then names what has the rest"
	if len(c.parts) > 1 {
		advice = "Name what has the rest with --then"
	}
	if first.Position > 1 {
		advice += fmt.Sprintf("; --until %d leaves out what comes then", first.Position-1)
	}
	return cli.Errorf(cli.ExitDirectory, "%s cannot be restored: %s. %s. Nothing was changed", c.File, first, advice)
}

// maxShown bounds each list in the text.
const maxShown = 20

func (c *collected) listFaults(found int) {
	for i, f := range c.findings {
		if i == maxShown {
			fmt.Fprintf(c.Stderr, "payledger: and %d more\n", found-i)
			break
		}
		fmt.Fprintf(c.Stderr, "payledger: %s\n", f)
	}
	for i, l := range c.lacking {
		if i == maxShown {
			fmt.Fprintf(c.Stderr, "payledger: and more\n")
			break
		}
		fmt.Fprintf(c.Stderr, "payledger: %s\n", l)
	}
}

// mayTrust returns an error if nothing proves some events, unless Force is set.
func (c *collected) mayTrust(r *audit.Report, unproved eventstore.Position) error {
	for _, p := range r.Checkpoints {
		if p.Outcome == audit.OK {
			c.proved = max(c.proved, eventstore.Position(p.Size))
		}
	}
	detail := fmt.Sprintf("no checkpoint proves the last %d of the %d events in %s", r.Last-c.proved, r.Last, c.File)
	if i := slices.IndexFunc(r.Findings, func(f audit.Finding) bool { return f.Kind == audit.WrongRoot }); i >= 0 {
		detail += fmt.Sprintf(" (%s)", r.Findings[i])
	}
	switch {
	case c.proved < unproved && !c.Force:
		return cli.Errorf(cli.ExitRefused, "%s: give one that was signed later with --checkpoint, or a bundle; with --force they are taken as they are", detail)
	case c.proved < unproved:
		fmt.Fprintf(c.Stderr, "payledger: %s\n", detail)
	case c.brought:
		fmt.Fprintf(c.Stderr, "payledger: the checkpoint of %s was checked with the key that came with it; --verifier-key checks it with yours\n", c.File)
	}
	return nil
}

// write writes the ledger.db, and next to it a file with the events after Options.Until.
func (c *collected) write(ctx context.Context, to string) error {
	m := begin(ctx, c.parts)
	defer m.stop()
	show := cli.Progress(c.Stderr, "Writing the log")
	last, err := bolt.Build(ctx, to, c.log, claimed(m.source(c.Until)(0), show))
	if err != nil {
		return err
	}
	show(last, last)
	if m.position() == 0 {
		return nil
	}
	c.rest = to + ".rest.jsonl"
	return m.writeRest(ctx, c.rest)
}

// writeRest writes what has not been taken as exported lines: each event, and
// where sources differ, each of theirs.
func (m *merge) writeRest(ctx context.Context, name string) (err error) {
	f, err := datadir.CreatePrivate(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<18)
	var line []byte
	for m.err == nil && m.position() != 0 {
		for _, p := range m.take() {
			if p.bad != nil {
				continue
			}
			line = export.AppendRecord(line[:0], p.Stored)
			if _, err := out.Write(line); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return errors.Join(m.err, out.Flush(), f.Sync())
}

// claimed adds the decoded event and its claim to records. It calls show with each
// position.
func claimed(records iter.Seq2[eventstore.Stored, error], show func(done, total eventstore.Position)) iter.Seq2[eventstore.Stored, error] {
	codec := eventstore.NewCodec()
	return func(yield func(eventstore.Stored, error) bool) {
		for r, err := range records {
			var version int
			if err == nil {
				r.Event, version, err = codec.DecodeVersion(r)
			}
			if err == nil {
				stored, claim := r.Claim, eventstore.ClaimOf(r.Event, version)
				if stored != nil && (claim == nil || *claim != *stored) {
					err = &eventstore.CorruptError{Position: r.Position, Reason: "record and event have different claims"}
				}
				r.Claim, r.Erases = claim, eventstore.Erases(r.Event)
				show(r.Position, r.Position)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}
