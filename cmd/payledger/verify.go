package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/cmd/payledger/service"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
	httpadmin "payledger/httpapi/admin"
)

// verifyCmd checks a log from the first event to the last.
type verifyCmd struct {
	Data string `help:"Data directory, of a running server or a stopped one." placeholder:"DIR"`
	File string `arg:"" optional:"" help:"In place of --data: a copy of a ledger.db, an exported bundle, or a payment's receipt."`
	admincmd.Trust
	WitnessKey []string `help:"Key of a witness, or a file with one on each line: its cosignatures of the checkpoints are checked; may be given more than once." placeholder:"KEY|FILE" sep:"none"`
	Quorum     int      `help:"How many of the witnesses must vouch for a checkpoint of this log." placeholder:"N"`
}

// Help is shown by --help.
func (verifyCmd) Help() string {
	return `Reads every event and checks checksums, positions, the order within streams, that each
event is one the rules lead to, idempotency keys, and the Merkle tree against the
checkpoint stored with the log and those given. Of a directory, the projections are
compared with the log as well. Nothing is changed.

The verdict on integrity says whether anything was altered, that on completeness
whether anything is missing. A cut-off end shows only against a checkpoint that was
kept elsewhere: give it with --checkpoint. A witness has its own copy of the log and
signs a checkpoint too when it agrees ("payledger log cosign"): --witness-key says which
of them to believe, --quorum how many must agree. A receipt of "payledger proof" is judged
by itself, with --verifier-key. Exit code 7: something is wrong with the
log; 3: it cannot be opened at all.`
}

// Run verifies.
func (c verifyCmd) Run(a *cli.App) error {
	if text := readReceipt(c.File); text != nil {
		return c.receipt(a, text)
	}
	report, err := c.check(a)
	if err != nil {
		return err
	}
	return printReport(a, report)
}

// check reads the log that the flags name.
func (c verifyCmd) check(a *cli.App) (*audit.Report, error) {
	path := cmp.Or(c.File, c.Data)
	if path == "" {
		return nil, cli.Errorf(cli.ExitUsage, "name what to verify: --data DIR, a copy of a ledger.db, or a bundle")
	}
	// Collecting garbage less often saves a fifth of the CPU time.
	defer process.RoomyHeap()() //nolint:errcheck // it answers none
	given, err := c.given()
	if err != nil {
		return nil, err
	}
	e, err := service.OpenEvidence(a.Ctx, path, given, a.Stderr)
	if err != nil {
		return nil, err
	}
	defer e.Close() //nolint:errcheck // only read
	q, err := request(given, e)
	if err != nil {
		return nil, err
	}
	var report *audit.Report
	err = e.Verify(a.Ctx, q, a.Showing(func(l httpadmin.Line) error {
		if l.Report != nil {
			report = l.Report
		}
		return nil
	}))
	return report, service.RefusedLocally(err)
}

// given is what the flags name.
func (c verifyCmd) given() (audit.Against, error) {
	given, err := c.Anchors()
	if err != nil {
		return given, err
	}
	err = datadir.AddWitnesses(&given, c.WitnessKey, c.Quorum)
	return given, err
}

// request is what to verify with: the checkpoints and keys that were given, and
// those that a directory has.
func request(q audit.Against, e *service.Evidence) (audit.Against, error) {
	if d := e.Dir; d != "" {
		if len(q.Verifiers) == 0 {
			own, err := d.OwnVerifier()
			if err != nil {
				return q, err
			}
			if own != nil {
				q.Verifiers = append(q.Verifiers, own)
			}
		}
		switch b, err := os.ReadFile(d.Checkpoint()); {
		case err == nil:
			q.Checkpoints = append(q.Checkpoints, audit.Checkpoint{Name: d.Checkpoint(), Signed: string(b), Beside: true})
		case !errors.Is(err, fs.ErrNotExist):
			return q, cli.Errorf(cli.ExitDirectory, "%w", err)
		}
	}
	if len(q.Verifiers) == 0 && len(q.Checkpoints) > 0 && !e.Bundle {
		return q, datadir.NeedsKey()
	}
	return q, nil
}

// printReport prints a report and returns the error for its exit code.
func printReport(a *cli.App, r *audit.Report) error {
	var err error
	if a.JSON {
		err = a.PrintJSON(r)
	} else {
		err = writeReport(a.Stdout, r)
	}
	if err != nil && r.OK() {
		return err
	}
	switch {
	case r.OK():
		return nil
	case r.FirstBad != 0:
		return cli.Errorf(cli.ExitVerify, "verification failed, the first bad position is %d", r.FirstBad)
	}
	return cli.Errorf(cli.ExitVerify, "verification failed")
}

func writeReport(w io.Writer, r *audit.Report) error {
	var out strings.Builder
	line := func(format string, args ...any) { // with what events and the files of a bundle say
		out.WriteString(cli.Visible(fmt.Sprintf(format, args...)) + "\n")
	}
	line("%s up to position %d, %s, %s", cli.Count(r.Events, "event"), r.Last, cli.Count(r.Payments, "payment"), cli.Count(r.Projects, "project"))
	if r.Project != "" {
		line("opaque        %s, of which only the leaf's hash is known; the others are of project %s, or move its money", cli.Count(r.Opaque, "event"), r.Project)
	}
	if r.Root != nil {
		line("root hash     %s", r.Root)
	}
	for _, c := range r.Checkpoints {
		line("checkpoint    %s: %s: %s", c.Name, cli.Count(c.Size, "event"), words(c.Outcome))
		var vouching []string
		for _, by := range c.Witnesses {
			if by.At != nil {
				vouching = append(vouching, by.Name)
				line("              %s vouched for it at %s", by.Name, by.At.Format(time.RFC3339))
			} else {
				line("              %s does not vouch for it", by.Name)
			}
		}
		if len(c.Witnesses) > 1 {
			line("              vouched for by %d of %d witnesses: %s", len(vouching), len(c.Witnesses), cmp.Or(strings.Join(vouching, ", "), "none"))
		}
	}
	for _, v := range []struct {
		name string
		audit.Verdict
	}{{"integrity", r.Integrity}, {"completeness", r.Completeness}, {"projections", r.Projections}} {
		line("%-13s %s: %s", v.name, words(v.Outcome), v.Reason)
	}
	for _, f := range r.Findings {
		line("finding       %s", f)
	}
	if more := r.Found - len(r.Findings); more > 0 {
		line("              and %d more", more)
	}
	for _, l := range r.Lacking {
		line("lacking       %s", l)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func words(o audit.Outcome) string { return strings.ReplaceAll(string(o), "_", " ") }

// readReceipt reads a receipt; nil if the file is something else, or cannot be read: it is opened in
// another way then, which reports the error.
func readReceipt(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	in := bufio.NewReader(io.LimitReader(f, translog.MaxReceipt+1))
	if head, _ := in.Peek(len(translog.ReceiptStart)); string(head) != translog.ReceiptStart {
		return nil
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return nil
	}
	return text
}

// receipt judges a receipt.
func (c verifyCmd) receipt(a *cli.App, text []byte) error {
	given, err := c.given()
	if err != nil {
		return err
	}
	if len(given.Checkpoints) > 0 {
		return cli.Errorf(cli.ExitUsage, "--checkpoint: a receipt is proved by the checkpoint in it, and cannot be compared with another: leave this out, or compare a bundle or a backup with it")
	}
	if len(given.Verifiers) == 0 {
		return cli.Errorf(cli.ExitUsage, "a receipt needs --verifier-key: the key that the server printed when the log was made, or the file that holds it")
	}
	r, err := audit.CheckReceipt(text, audit.Options{Codec: eventstore.NewCodec(), Against: given})
	if err != nil {
		return cli.Errorf(cli.ExitVerify, "%s proves nothing: %w", c.File, err)
	}
	if a.JSON {
		return a.PrintJSON(r)
	}
	fmt.Fprintf(a.Stdout, "payment       %s of project %s: %s, %s %s\n", r.Payment, r.Project, r.Status, r.Amount, r.Currency)
	for _, of := range r.Refunds {
		fmt.Fprintf(a.Stdout, "refund        %s %s%s\n", of.ID, of.Status, map[bool]string{true: ", returned"}[of.Returned])
	}
	for _, e := range r.Events {
		fmt.Fprintf(a.Stdout, "event         %s  %-26s at position %d  %s\n", e.At, e.Type, e.Position, e.Actor)
	}
	for _, w := range r.Witnesses {
		vouches := "does not vouch for it"
		if w.At != nil {
			vouches = "vouched for it at " + w.At.Format(time.RFC3339)
		}
		fmt.Fprintf(a.Stdout, "witness       %s %s\n", w.Name, vouches)
	}
	_, err = fmt.Fprintf(a.Stdout, "integrity     ok: the log %s of %s holds these events, as the rules lead to them\n"+
		"completeness  not checked: a receipt cannot prove that the payment has no later events\n", r.Origin, cli.Count(r.Size, "event"))
	return err
}
