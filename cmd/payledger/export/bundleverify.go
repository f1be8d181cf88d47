package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
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
	in, err := b.Survey()
	if err != nil {
		return nil, OpenFailed(err)
	}
	sums, small := in.sums, in.Small
	o.Codec, o.Bare, o.Progress = eventstore.NewCodec(), true, progress
	own := len(o.Verifiers) == 0
	if _, ok := sums[CheckpointFile]; ok {
		o.Checkpoints = append(o.Checkpoints, audit.Checkpoint{Name: b.CheckpointName(), Signed: small[CheckpointFile], Beside: true})
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
	var report *audit.Report
	written := newJournalSum()
	err = b.Events(func(r io.Reader) error {
		report, err = audit.Check(ctx, written.passing(audit.Lines(r)), o)
		return err
	})
	if err != nil {
		return nil, OpenFailed(err)
	}
	// If events are missing or altered, that the journal differs too adds nothing.
	if sum, ok := sums[JournalFile]; ok && report.OK() && sum != written.sum() {
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

// journalSum hashes the journal of the events that pass.
type journalSum struct {
	format format
	hash   hash.Hash
	block  []byte
}

func newJournalSum() *journalSum {
	j := &journalSum{format: newFormat("hledger"), hash: sha256.New()}
	j.hash.Write([]byte(j.format.header()))
	return j
}

func (j *journalSum) passing(src audit.Source) audit.Source {
	return func(after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
		return func(yield func(eventstore.Stored, error) bool) {
			for r, err := range src(after) {
				if err == nil {
					// The check reports an event that cannot be decoded.
					j.block, _ = j.format.render(j.block[:0], r)
					j.hash.Write(j.block)
				}
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

func (j *journalSum) sum() string { return hex.EncodeToString(j.hash.Sum(nil)) }
