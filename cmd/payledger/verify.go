package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	httpadmin "payledger/httpapi/admin"

	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
)

// verifyCmd checks a log from the first event to the last.
type verifyCmd struct {
	Data        string   `help:"Data directory, of a running server or a stopped one." placeholder:"DIR"`
	File        string   `arg:"" optional:"" help:"In place of --data: a copy of a ledger.db, or an exported bundle."`
	Checkpoint  []string `help:"Signed checkpoint that was kept elsewhere; may be given more than once." placeholder:"FILE"`
	VerifierKey []string `help:"Verifier key of the checkpoints, or a file that holds it; may be given more than once. Default: that of the directory or bundle." placeholder:"KEY|FILE" sep:"none"`
}

// Help is shown by --help.
func (verifyCmd) Help() string {
	return `Reads every event and checks checksums, positions, the order within streams, that each
event is one the rules lead to, idempotency keys, and the Merkle tree against the
checkpoint beside the log and those given. Of a directory, the projections are
compared with the log as well. Nothing is changed.

The verdict on integrity says whether anything was altered, that on completeness
whether anything is missing. A cut-off end shows only against a checkpoint that was
kept elsewhere: give it with --checkpoint. Exit code 7: something is wrong with the
log; 3: it cannot be opened at all.`
}

// Run verifies.
func (c verifyCmd) Run(a *app) error {
	path := cmp.Or(c.File, c.Data)
	if path == "" {
		return exitWith(exitUsage, "name what to verify: --data DIR, a copy of a ledger.db, or a bundle")
	}
	// Collecting less often saves a fifth of the processor's time.
	defer roomyHeap()() //nolint:errcheck // it answers none
	if b, err := openBundle(path); err != nil || b != nil {
		if err != nil {
			return err
		}
		return c.bundle(a, b)
	}
	e, err := openEvidence(a, path)
	if err != nil {
		return err
	}
	defer e.close() //nolint:errcheck // only read
	q, err := c.request(e.dir, false)
	if err != nil {
		return err
	}
	var report *audit.Report
	err = e.verify(a.ctx, q, a.showing(func(l httpadmin.Line) error {
		if l.Report != nil {
			report = l.Report
		}
		return nil
	}))
	if err != nil {
		return refusedLocally(err)
	}
	return a.printReport(report)
}

// request gathers the checkpoints: those given, and the one beside the log.
// With others, the log itself may bring a key along.
func (c verifyCmd) request(d dataDir, others bool) (q httpadmin.VerifyRequest, err error) {
	for _, name := range c.Checkpoint {
		b, err := os.ReadFile(name)
		if err != nil {
			return q, exitWith(exitUsage, "--checkpoint: %w", err)
		}
		if len(b) > translog.MaxCheckpoint {
			return q, exitWith(exitUsage, "--checkpoint %s: not a checkpoint, it has %d bytes", name, len(b))
		}
		q.Checkpoints = append(q.Checkpoints, httpadmin.SignedCheckpoint{Name: name, Note: string(b)})
	}
	for _, k := range c.VerifierKey {
		key, err := verifierKey(k)
		if err != nil {
			return q, err
		}
		q.VerifierKeys = append(q.VerifierKeys, key)
	}
	if d != "" {
		if len(q.VerifierKeys) == 0 {
			own, err := d.ownVerifierKey()
			if err != nil {
				return q, err
			}
			if own != "" {
				q.VerifierKeys = []string{own}
			}
		}
		beside := filepath.Join(string(d), "checkpoint")
		switch b, err := os.ReadFile(beside); {
		case err == nil:
			q.Checkpoints = append(q.Checkpoints, httpadmin.SignedCheckpoint{Name: beside, Note: string(b), Beside: true})
		case !errors.Is(err, fs.ErrNotExist):
			return q, exitWith(exitDirectory, "%w", err)
		}
	}
	if !others && len(q.VerifierKeys) == 0 && len(q.Checkpoints) > 0 {
		return q, exitWith(exitUsage, "--checkpoint needs --verifier-key: the key that the server printed when the log was made, or the file that holds it")
	}
	return q, nil
}

// verifierKey is the key itself, or what the file of that name holds.
func verifierKey(text string) (string, error) {
	if _, err := translog.ParseVerifier(text); err != nil {
		b, readErr := os.ReadFile(text)
		if readErr != nil {
			return "", exitWith(exitUsage, "--verifier-key: neither a key nor a file: %w", readErr)
		}
		text = string(b)
	}
	v, err := translog.ParseVerifier(text)
	if err != nil {
		return "", exitWith(exitUsage, "--verifier-key: %w", err)
	}
	return v.Key(), nil
}

// ownVerifierKey derives the verifier key from the log's key, "" when the
// directory has none.
func (d dataDir) ownVerifierKey() (string, error) {
	name := filepath.Join(string(d), "log.key")
	b, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", exitWith(exitDirectory, "%w", err)
	}
	s, err := translog.ParseSigner(string(b))
	if err != nil {
		return "", exitWith(exitDirectory, "%s: %w", name, err)
	}
	return s.VerifierKey(), nil
}

// printReport prints a report and answers the error behind its exit code.
func (a *app) printReport(r *audit.Report) error {
	write := a.writeReport
	if a.json {
		write = func(r *audit.Report) error { return a.printJSON(r) }
	}
	if err := write(r); err != nil && r.OK() {
		return err
	}
	switch {
	case r.OK():
		return nil
	case r.FirstBad != 0:
		return exitWith(exitVerify, "verification failed, the first bad position is %d", r.FirstBad)
	}
	return exitWith(exitVerify, "verification failed")
}

func (a *app) writeReport(r *audit.Report) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%d events up to position %d, %d payments, %d projects\n", r.Events, r.Last, r.Payments, r.Projects)
	if r.Root != nil {
		fmt.Fprintf(&out, "root hash     %s\n", r.Root)
	}
	for _, c := range r.Checkpoints {
		fmt.Fprintf(&out, "checkpoint    %s: %d events: %s\n", c.Name, c.Size, words(c.Outcome))
	}
	for _, v := range []struct {
		name string
		audit.Verdict
	}{{"integrity", r.Integrity}, {"completeness", r.Completeness}, {"projections", r.Projections}} {
		fmt.Fprintf(&out, "%-13s %s: %s\n", v.name, words(v.Outcome), v.Reason)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&out, "finding       %s\n", f)
	}
	if more := r.Found - len(r.Findings); more > 0 {
		fmt.Fprintf(&out, "              and %d more\n", more)
	}
	_, err := io.WriteString(a.stdout, out.String())
	return err
}

func words(o audit.Outcome) string { return strings.ReplaceAll(string(o), "_", " ") }
