package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"iter"

	"payledger/cmd/payledger/cli"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
)

// Verify checks the bundle from the first event to the last, against what o names. Everything in it is read once for the
// hashes and the small files, then the events once more. The manifest can be made to match an
// altered journal, so the journal is written again from the events and compared.
func (b *Bundle) Verify(ctx context.Context, o audit.Options, progress func(done, total eventstore.Position)) (*audit.Report, error) {
	in, err := b.Survey(ctx)
	if err != nil {
		return nil, OpenFailed(err)
	}
	sums, small := in.sums, in.Small
	o.Codec, o.Bare, o.Progress = eventstore.NewCodec(), true, progress
	own := len(o.Verifiers) == 0
	if _, ok := sums[CheckpointFile]; ok {
		o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: b.CheckpointName(), Signed: string(small[CheckpointFile]), Beside: true})
	}
	if _, ok := sums[KeyFile]; ok && own {
		v, err := translog.ParseVerifier(string(small[KeyFile]))
		if err != nil {
			return nil, cli.Errorf(cli.ExitDirectory, "%s: %s: %w", b.Path, KeyFile, err)
		}
		o.Verifiers = append(o.Verifiers, v)
	}
	var stated Manifest
	faults := ReadManifest(in, &stated)
	o.Total, o.Project = eventstore.Position(stated.Events), stated.Project
	if !stated.LogID.IsZero() {
		o.Origin = translog.Origin(stated.LogID)
	}
	journal, written := newFormat("hledger", ""), sha256.New()
	_, _ = io.WriteString(written, journal.header()) // never fails
	var block []byte
	lines, err := b.OpenEvents()
	if err != nil {
		return nil, OpenFailed(err)
	}
	defer lines.Close() // only read
	read := audit.Lines(lines)
	report, err := audit.Check(ctx, func(after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
		return func(yield func(eventstore.Stored, error) bool) {
			for r, err := range read(after) {
				if err == nil {
					// The check reports an event that cannot be decoded.
					block, _ = journal.render(block[:0], r)
					_, _ = written.Write(block)
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}, o)
	if err != nil {
		return nil, OpenFailed(err)
	}
	// If events are missing or altered, that the journal differs too adds nothing.
	if sum, ok := sums[JournalFile]; ok && report.OK() && sum != hex.EncodeToString(written.Sum(nil)) {
		report.Add(audit.Finding{Kind: audit.BadJournal, Detail: JournalFile + " is not the journal of the bundle's events"})
	}
	if _, ok := sums[ManifestFile]; ok {
		faults = append(faults, stated.counts(report, b.CheckpointName())...)
	}
	for _, f := range faults {
		report.Add(audit.Finding{Kind: audit.BadManifest, Detail: ManifestFile + ": " + f})
	}
	report.Projections = audit.Verdict{Outcome: audit.NotChecked, Reason: "a bundle has none"}
	if own && report.Integrity.Outcome == audit.OK {
		report.Integrity.Reason += "; the verifier key came with the bundle: give the one you got from the server's operator with --verifier-key"
	}
	return report, nil
}
