package restore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"os"
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

// collect reads all sources and proves their events. At each position a source with the event will
// do; where two have different ones, it is refused. A checkpoint proves the events that it covers.
// After that, an event in a ledger.db or in EVENTS counts, but one that only an export states needs
// Options.Force, and so does one on a page that its ledger.db does not use.
func (r *restoring) collect(ctx context.Context, pack datadir.KeyPack) error {
	r.write = r.build
	for _, name := range append([]string{r.File}, r.Then...) {
		if err := r.add(ctx, name); err != nil {
			return err
		}
	}
	check := audit.Options{Codec: eventstore.NewCodec(), Bare: true, Progress: cli.Progress(r.Stderr, "Checking the events")}
	if err := r.prepare(&check, pack); err != nil {
		return err
	}
	m := begin(ctx, r.parts)
	report, err := audit.Check(ctx, m.source(r.Until), check)
	m.stop()
	if err != nil {
		return export.OpenFailed(err)
	}
	for _, p := range r.parts {
		if p.trouble != "" {
			fmt.Fprintf(r.Stderr, "payledger: %s: %s\n", p.name, p.trouble)
		}
		if p.last > report.Last {
			report.Add(audit.Finding{
				Kind: audit.Truncated, Position: report.Last + 1, Through: p.last,
				Detail: fmt.Sprintf("the log ends at position %d, %s has %d events", report.Last, p.name, p.last),
			})
		}
	}
	if err := r.mayTake(report); err != nil {
		return err
	}
	r.Position = report.Last
	return r.mayTrust(report, m.unproved)
}

// scratch is a directory for copies of sources, in the data directory if that is there.
func (r *restoring) scratch() (_ *datadir.Scratch, err error) {
	if r.work == nil {
		dir := string(r.Data)
		if !datadir.Exists(dir) {
			dir = os.TempDir()
		}
		r.work, err = datadir.NewScratch(dir)
	}
	return r.work, err
}

// prepare collects the checkpoints and the keys that open them, and finds the
// log's id.
func (r *restoring) prepare(o *audit.Options, pack datadir.KeyPack) error {
	given, err := datadir.ReadTrustAnchors("--checkpoint", r.Checkpoint, r.VerifierKey)
	if err != nil {
		return err
	}
	o.Against = given
	key, err := r.logKey(pack)
	if err != nil {
		return err
	}
	if key != nil && len(o.Verifiers) == 0 {
		o.Verifiers = append(o.Verifiers, key.Verifier())
	}
	for _, p := range r.parts {
		if p.checkpoint == nil {
			continue
		}
		o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: p.name + "/" + export.CheckpointFile, Signed: string(p.checkpoint)})
		if len(o.Verifiers) == 0 {
			v, err := translog.ParseVerifier(string(p.key))
			if err != nil {
				return cli.Errorf(cli.ExitDirectory, "%s: %s: %w", p.name, export.KeyFile, err)
			}
			o.Verifiers, r.brought = append(o.Verifiers, v), true
		}
	}
	if err := r.identify(o.Verifiers); err != nil {
		return err
	}
	o.Origin = translog.Origin(r.Log)
	// The directory's checkpoint may be of another log: then it is treated as a loss.
	if slices.ContainsFunc(o.Verifiers, func(v *translog.Verifier) bool {
		_, err := v.Open(r.signed)
		return err == nil && v.Origin() == o.Origin
	}) {
		o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: r.Data.Checkpoint(), Signed: string(r.signed)})
	}
	return nil
}

// identify finds the id of the log, which is the same in all sources that have it.
// Lines do not: then it is that of the key.
func (r *restoring) identify(keys []*translog.Verifier) error {
	name := ""
	for _, p := range r.parts {
		switch id := repaired(p.log, keys); {
		case id.IsZero():
		case r.Log.IsZero():
			r.Log, name = id, p.name
		case r.Log != id:
			return cli.Errorf(cli.ExitDirectory, "%s is of the log %s, %s of another log, %s: name the sources of one log only", name, r.Log, p.name, id)
		}
	}
	switch {
	case !r.Log.IsZero():
		return nil
	case len(keys) == 0:
		return cli.Errorf(cli.ExitDirectory, "%s does not say of which log it is: put the log.key that belongs to it into %s, name a file of keys with --keys, "+
			"or give the verifier key with --verifier-key. A bundle (\"payledger export --format bundle\") says it itself", r.File, r.Data)
	}
	id, ok := translog.LogOf(keys[0].Origin())
	if !ok {
		return cli.Errorf(cli.ExitUsage, "the verifier key is that of %s, which is no log of payledger", keys[0].Origin())
	}
	r.Log = id
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
func (r *restoring) mayTake(report *audit.Report) error {
	for _, f := range report.Findings {
		if f.Checkpoint != r.Data.Checkpoint() && (f.Kind != audit.Truncated || r.Until == 0) {
			r.Findings = append(r.Findings, f)
		}
	}
	switch {
	case len(r.Findings) > 0:
	case report.Last < r.Until:
		return cli.Errorf(cli.ExitDirectory, "--until %d: the sources end at position %d. Nothing was changed", r.Until, report.Last)
	case report.Last == 0 && slices.ContainsFunc(r.parts, func(p *part) bool { return p.trouble != "" }):
		return cli.Errorf(cli.ExitDirectory, "nothing of a log can be read in %s. Nothing was changed", r.File)
	default:
		return nil
	}
	r.Lacking = report.Lacking
	if len(r.parts) > 1 {
		r.listFaults(report.Found)
	}
	first, advice := r.Findings[0], "It has to be a whole export, without --project and --after, or --then names what has the rest"
	if len(r.parts) > 1 {
		advice = "Name what has the rest with --then"
	}
	if first.Position > 1 {
		advice += fmt.Sprintf("; --until %d leaves out what comes then", first.Position-1)
	}
	return cli.Errorf(cli.ExitDirectory, "%s cannot be restored: %s. %s. Nothing was changed", r.File, cli.Visible(first.String()), advice)
}

// maxShown bounds each list in the text.
const maxShown = 20

func (r *restoring) listFaults(found int) {
	for i, f := range r.Findings {
		if i == maxShown {
			fmt.Fprintf(r.Stderr, "payledger: and %d more\n", found-i)
			break
		}
		fmt.Fprintf(r.Stderr, "payledger: %s\n", cli.Visible(f.String()))
	}
	for i, l := range r.Lacking {
		if i == maxShown {
			fmt.Fprintf(r.Stderr, "payledger: and more\n")
			break
		}
		fmt.Fprintf(r.Stderr, "payledger: %s\n", cli.Visible(l.String()))
	}
}

// mayTrust returns an error if nothing proves some events, unless Force is set.
func (r *restoring) mayTrust(report *audit.Report, unproved eventstore.Position) error {
	for _, p := range report.Checkpoints {
		if p.Outcome == audit.OK {
			r.Proved = max(r.Proved, eventstore.Position(p.Size))
		}
	}
	detail := fmt.Sprintf("no checkpoint proves the last %d of the %d events in %s", report.Last-r.Proved, report.Last, r.File)
	if i := slices.IndexFunc(report.Findings, func(f audit.Finding) bool { return f.Kind == audit.WrongRoot }); i >= 0 {
		detail += fmt.Sprintf(" (%s)", cli.Visible(report.Findings[i].String()))
	}
	needed := "give one that was signed later with --checkpoint, or a bundle"
	if r.Until > 0 {
		needed = fmt.Sprintf("of the first %d alone, only one of that many does: give that one with --checkpoint, or restore without --until", report.Last)
	}
	switch {
	case r.Proved < unproved && !r.Force:
		return cli.Errorf(cli.ExitRefused, "%s: %s; with --force they are taken as they are", detail, needed)
	case r.Proved < unproved:
		fmt.Fprintf(r.Stderr, "payledger: %s\n", detail)
	case r.brought:
		fmt.Fprintf(r.Stderr, "payledger: the checkpoint of %s was checked with the key that came with it; --verifier-key checks it with yours\n", r.File)
	}
	return nil
}

// build writes the ledger.db, and next to it a file with the events after Options.Until.
func (r *restoring) build(ctx context.Context, to string) error {
	m := begin(ctx, r.parts)
	defer m.stop()
	show := cli.Progress(r.Stderr, "Writing the log")
	last, err := bolt.Build(ctx, to, r.Log, claimed(r.withoutErased(m.source(r.Until)(0)), show))
	if err != nil {
		return err
	}
	show(last, last)
	if m.position() == 0 {
		return nil
	}
	r.rest = to + ".rest.jsonl"
	return r.writeRest(ctx, m)
}

// writeRest writes what has not been taken as exported lines: each event, and
// where sources differ, each of theirs; of erased payments without their details.
func (r *restoring) writeRest(ctx context.Context, m *merge) (err error) {
	f, err := datadir.CreatePrivate(r.rest)
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
			if r.isErased(p.Stream) {
				p.Details = nil
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
