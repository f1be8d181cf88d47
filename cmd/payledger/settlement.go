package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/reports"
	"payledger/cmd/payledger/service"
	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/httpapi/wire"
)

// settlementCmd groups the commands on providers' settlement reports.
type settlementCmd struct {
	Import  settlementImport           `cmd:"" help:"Read a provider's report: what it would book, or with --apply book it."`
	List    admincmd.SettlementList    `cmd:"" help:"List the reports that were imported."`
	Show    admincmd.SettlementShow    `cmd:"" help:"Print a report with its lines."`
	Resolve admincmd.SettlementResolve `cmd:"" help:"Take a line that fits nothing out of suspense."`
}

// Help is shown by --help.
func (settlementCmd) Help() string {
	return `A provider pays out in sums, less its fees, and says in a report which payments, refunds and
disputes they are for. Imported, each line clears what the provider owed for its payment
(acquirer_receivable), and its net amount is on its way (settlement_transit). It does not matter
whether the report or the outcome of a payment comes first. A line of a dispute that takes money
opens the payment's dispute, if nothing was heard of it, and one that brings all of it back says that
it is won; that it is lost no line says. A line that does not fit is
recorded with its reason, and its net amount waits in settlement_suspense until you resolve it:

  unknown_reference  it names no payment of this route; once its reference is known it is matched by itself
  amount_differs     the payment or refund is of another amount
  currency_differs   or in another currency
  settled_before     another line has settled the same
  other              the report says no more of it`
}

type settlementImport struct {
	admincmd.Anyway
	File   string `arg:"" type:"existingfile" help:"The report." json:"-"`
	Route  string `required:"" help:"Route whose provider wrote it." json:"-"`
	Report string `help:"The provider's id of the report. Default: the file's name without its ending." placeholder:"ID" json:"-"`
	Format string `help:"Form of the report: csv, stripe-payout-reconciliation, yookassa-registry, yookassa-registry-1251, or the file of a profile. Default: csv." default:"csv" placeholder:"NAME|FILE" json:"-"`
	Apply  bool   `help:"Record it. Without this nothing is recorded." json:"-"`
}

// Help is shown by --help.
func (settlementImport) Help() string {
	return `Prints what the lines are found to be and what they add up to. With --apply they are
recorded, and booked, by a running server, which lets payments go first: while some are made, it takes
about twice as long. The same file again changes nothing; one that was interrupted goes on
where it stopped. Another content under the same id is refused, and so is another --format.

The form csv has a line of headings: kind (payment, refund, refund_returned, fee, dispute or other), reference,
gross, fee, net, currency and settled_on (2026-11-20), and payment_id and refund_id, which are
payledger's, where there are such. gross is what the provider owes by the line, negative for
refunds and disputes, and net is gross less fee. Lines are matched by payment_id or refund_id,
else by reference, which for a dispute is the dispute's own. The runbook shows how to describe another provider's reports.`
}

// Run prints what the report would book, or records it.
func (c settlementImport) Run(a *cli.App) error {
	if c.Report == "" {
		base := filepath.Base(c.File)
		c.Report = strings.TrimSuffix(base, filepath.Ext(base))
	}
	if !settlement.ValidReport(c.Report) {
		return cli.Errorf(cli.ExitUsage, "--report: %q cannot be the id of a report: want 1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore", c.Report)
	}
	profile, err := reports.Load(c.Format)
	if err != nil {
		return cli.Errorf(cli.ExitUsage, "--format: %w", err)
	}
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	var all settlement.Summary
	in := source{file: file, profile: profile, now: time.Now()}
	sum, err := in.lines(func(l settlement.Line) error {
		all = all.Add(l)
		return nil
	})
	if err != nil {
		return err
	}
	if all.Lines == 0 {
		return fmt.Errorf("%s has no lines", c.File)
	}
	if c.Apply { // a server alone knows who bears the fees of the route
		return c.Serving(a, "", func(m *cli.Client) error { return c.apply(a, m, in, sum, all) })
	}
	return c.Holding(a, service.Options{}, func(m *cli.Client) error { return c.preview(a, m, in, sum, all) })
}

// source is a report that is being read.
type source struct {
	file    *os.File
	profile reports.Profile
	now     time.Time
}

// lines calls fn for the lines of the report, and answers the SHA-256 of the file.
func (in source) lines(fn func(settlement.Line) error) (sum domain.Digest, err error) {
	if _, err := in.file.Seek(0, io.SeekStart); err != nil {
		return sum, err
	}
	hash := sha256.New()
	whole := io.TeeReader(in.file, hash)
	for l, err := range in.profile.Read(whole, in.now) {
		if err != nil {
			return sum, fmt.Errorf("%s: %w", in.file.Name(), err)
		}
		if err := fn(l); err != nil {
			return sum, err
		}
	}
	_, err = io.Copy(io.Discard, whole)
	return domain.Digest(hash.Sum(nil)), err
}

// batchLines is how many lines are sent at once. The server works on the lines of one request at a
// time, and records those of a project in as few events as they fit into.
const batchLines = 2_000

// batches calls send with the lines after the first ones in batches, and shows how far it is.
func (c settlementImport) batches(a *cli.App, in source, sum domain.Digest, first, total int, send func([]settlement.Line) error) error {
	show := cli.Counting[int64](a.Stderr, map[bool]string{false: "Matching lines", true: "Recording lines"}[c.Apply], "lines")
	batch := make([]settlement.Line, 0, min(total, batchLines))
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := send(batch)
		show(int64(batch[len(batch)-1].Number), int64(total))
		batch = batch[:0]
		return err
	}
	again, err := in.lines(func(l settlement.Line) error {
		if l.Number <= first {
			return nil
		}
		if batch = append(batch, l); len(batch) == cap(batch) {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil && again != sum {
		err = fmt.Errorf("%s has changed while it was read: import it again", c.File)
	}
	return err
}

// statement is what lines are found to be.
type statement struct {
	ID      string                `json:"id"`
	SHA256  domain.Digest         `json:"sha256"`
	Summary settlement.Summary    `json:"summary"`
	Results []resultTotals        `json:"results"`
	Waiting []wire.SettlementLine `json:"waiting"` // the first of them

	DisputesOpened int `json:"disputes_opened"`
	DisputesWon    int `json:"disputes_won"`

	Before string `json:"imported_before,omitempty"` // the status of a report with this id, whose lines count as settled here
}

type resultTotals struct {
	Result settlement.Result `json:"result"`
	settlement.Totals
}

func (r resultTotals) cells(first string) []string {
	return []string{first, strconv.Itoa(r.Lines), r.Gross.String(), r.Fee.String(), r.Net.String(), string(r.Currency)}
}

// maxShown is how many lines that do not fit a preview shows.
const maxShown = 100

func (c settlementImport) preview(a *cli.App, m *cli.Client, in source, sum domain.Digest, all settlement.Summary) error {
	s := statement{ID: settlement.ID(c.Route, c.Report), SHA256: sum, Summary: all, Results: []resultTotals{}, Waiting: []wire.SettlementLine{}}
	totals, waiting := make(map[settlement.Result][]settlement.Totals), 0
	cleared := make(map[string]settlement.Cleared) // by payment, also by lines of earlier batches
	var judge func([]settlement.Line) error
	judge = func(batch []settlement.Line) error {
		var page wire.Page[wire.SettlementLine]
		if err := m.Call(a.Ctx, http.MethodPost, "/admin/settlements/match", wire.SettlementLines{Route: c.Route, Lines: batch}, &page); err != nil {
			return err
		}
		for _, l := range page.Data {
			before := cleared[l.PaymentID]
			switch {
			case l.Result == settlement.SettledBefore && before != "" && len(batch) > 1: // perhaps by one of its batch that settles nothing here
				if err := judge([]settlement.Line{l.Line}); err != nil {
					return err
				}
				continue
			case l.Result == settlement.Settled && l.Repeats(before.Of(l.Line)):
				l.Result, l.Says = settlement.SettledBefore, ""
			case l.Result == settlement.Settled:
				cleared[l.PaymentID] = before.With(l.Line, "")
			}
			switch l.Says {
			case domain.OutcomeDisputed:
				s.DisputesOpened++
			case domain.OutcomeDisputeWon:
				s.DisputesWon++
			}
			totals[l.Result] = settlement.AddTotals(totals[l.Result], l.Line)
			if l.Result.Waits() {
				if waiting++; len(s.Waiting) < maxShown {
					s.Waiting = append(s.Waiting, l)
				}
			}
		}
		return nil
	}
	if err := c.batches(a, in, sum, 0, all.Lines, judge); err != nil {
		return err
	}
	var before wire.Settlement
	err := m.Call(a.Ctx, http.MethodGet, "/admin/settlements/"+url.PathEscape(s.ID), nil, &before)
	if s.Before = before.Status; err != nil && !cli.RefusedFor(err, domain.SettlementNotFound) {
		return err
	}
	var rows [][]string
	for _, r := range settlement.Results() {
		for _, t := range totals[r] {
			s.Results = append(s.Results, resultTotals{r, t})
			rows = append(rows, resultTotals{r, t}.cells(string(r)))
		}
	}
	if a.JSON {
		return a.PrintJSON(s)
	}
	fmt.Fprintf(a.Stdout, "Report %s, settled from %s to %s, %d lines\n\n", s.ID, all.From, all.To, all.Lines)
	for _, t := range all.Totals {
		rows = append(rows, resultTotals{Totals: t}.cells("total"))
	}
	if err := a.PrintTable("", []string{"RESULT", "LINES", "GROSS", "FEE", "NET", "CURRENCY"}, rows); err != nil {
		return err
	}
	if waiting > 0 {
		fmt.Fprintf(a.Stdout, "\nLines that do not fit: %d", waiting)
		if waiting > len(s.Waiting) {
			fmt.Fprintf(a.Stdout, "; the first %d", len(s.Waiting))
		}
		fmt.Fprint(a.Stdout, ":\n\n")
		if err := admincmd.PrintSettlementLines(a, s.Waiting); err != nil {
			return err
		}
	}
	if s.DisputesOpened+s.DisputesWon > 0 {
		fmt.Fprintf(a.Stdout, "\nDisputes that it opens: %d; that it says are won: %d.\n", s.DisputesOpened, s.DisputesWon)
	}
	if s.Before != "" {
		return a.Note("A report with this id was imported before, and what it settled counts as settled here. With --apply the same file goes on where\n" +
			"it stopped, or records nothing where all is recorded; another file is refused.")
	}
	return a.Note("Nothing is recorded: add --apply.")
}

func (c settlementImport) apply(a *cli.App, m *cli.Client, in source, sum domain.Digest, all settlement.Summary) error {
	var s wire.Settlement
	err := m.Call(a.Ctx, http.MethodPost, "/admin/settlements", wire.OpenSettlement{Route: c.Route, Report: c.Report, SHA256: sum, Summary: all}, &s)
	if err != nil {
		return err
	}
	if s.Status == wire.SettlementRecorded {
		return a.Print(s, "Report %s was imported before: nothing to do.\n", s.ID)
	}
	path := "/admin/settlements/" + url.PathEscape(s.ID)
	recorded := max(0, s.Lines-wire.MaxSettlementLines) // of one request that was interrupted, some lines may be
	err = c.batches(a, in, sum, recorded, all.Lines, func(batch []settlement.Line) error {
		return m.Call(a.Ctx, http.MethodPost, path+"/lines", wire.SettlementLines{Lines: batch}, &s)
	})
	if err == nil {
		err = m.Call(a.Ctx, http.MethodPost, path+"/close", nil, &s)
	}
	if err != nil {
		if errors.Is(err, context.Canceled) {
			_ = a.Note("Not all lines are recorded: the same command goes on where it stopped.")
		}
		return err
	}
	return a.Print(s, "Recorded report %s: %d lines, of which %d wait in suspense.\n", s.ID, s.Lines, s.Waiting)
}
