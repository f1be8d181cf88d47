package admincmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
	"payledger/domain/settlement"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// PrintSettlementLines prints lines of reports in columns.
func PrintSettlementLines(a *cli.App, lines []wire.SettlementLine) error {
	rows := make([][]string, len(lines))
	for i, l := range lines {
		result := string(l.Result)
		if l.Resolved {
			result += ", resolved"
		}
		rows[i] = texts(l.Number, l.SettledOn, l.Kind, result, l.Gross, l.Fee, l.Net, l.Currency, l.Reference, l.PaymentID)
	}
	return a.PrintTable("No such lines.", []string{"LINE", "SETTLED", "KIND", "RESULT", "GROSS", "FEE", "NET", "CURRENCY", "REFERENCE", "PAYMENT"}, rows)
}

// SettlementList lists the reports that were imported.
type SettlementList struct {
	Reads
	Paged
}

// Run lists the reports.
func (c SettlementList) Run(a *cli.App) error {
	return list(a, c, "GET /admin/settlements", func(all []wire.Settlement) error {
		var rows [][]string
		for _, s := range all {
			if len(s.Totals) == 0 { // no line is recorded yet
				s.Totals = []settlement.Totals{{}}
			}
			waiting := any(s.Waiting) // of all currencies
			for _, t := range s.Totals {
				rows = append(rows, texts(s.ID, s.Status, s.From, s.To, t.Lines, waiting, t.Gross, t.Fee, t.Net, t.Currency))
				waiting = ""
			}
		}
		return a.PrintTable("No report was imported.", []string{"REPORT", "STATUS", "FROM", "TO", "LINES", "WAITING", "GROSS", "FEE", "NET", "CURRENCY"}, rows)
	})
}

// SettlementShow prints the lines of a report.
type SettlementShow struct {
	Reads
	Paged
	ID      string `arg:"" help:"The report, as \"settlement list\" shows it." json:"id"`
	Waiting bool   `help:"Only lines in suspense." json:"waiting,omitzero"`
}

// Run prints the lines.
func (c SettlementShow) Run(a *cli.App) error {
	return list(a, c, "GET /admin/settlements/{id}", func(all []wire.SettlementLine) error { return PrintSettlementLines(a, all) })
}

// SettlementResolve takes a line out of suspense.
type SettlementResolve struct {
	Anyway
	Line     string `arg:"" help:"Report and number of the line: cards:po_1/17." json:"-"`
	Payment  string `xor:"to" required:"" help:"It is for this payment, whose amount it clears in the payment's own currency. Give just one of --payment, --fee and --write-off." placeholder:"PAYMENT_ID" json:"payment_id,omitzero"`
	Fee      bool   `xor:"to" required:"" help:"It is a fee of the provider." json:"-"`
	WriteOff bool   `xor:"to" required:"" help:"Nobody will pay it, or take it back." json:"-"`
	Reason   string `required:"" help:"Why, for the auditor." json:"reason"`

	To     settlement.Resolution `kong:"-" json:"to"`
	ID     string                `kong:"-" json:"id"`
	Number int                   `kong:"-" json:"number"`
}

// Run resolves the line.
func (c SettlementResolve) Run(a *cli.App) error {
	var ok bool
	if c.ID, c.Number, ok = settlement.ParseLineID(c.Line); !ok {
		return cli.Errorf(cli.ExitUsage, "%q names no line: want a report, a slash and a number, such as cards:po_1/17", c.Line)
	}
	switch {
	case c.Fee:
		c.To = settlement.ToFee
	case c.WriteOff:
		c.To = settlement.WriteOff
	default:
		c.To = settlement.ToPayment
	}
	return do(a, c, "POST /admin/settlements/{id}/lines/{number}/resolve", map[string]string{"line": c.Line, "to": string(c.To)}, "Resolved line %s.\n", c.Line)
}

// Reconcile prints what is open between outcomes and reports.
type Reconcile struct {
	Reads
	Route string `help:"Only this route." json:"route,omitzero"`
	AsOf  string `help:"As of a time (2026-11-20T10:15:30Z)." placeholder:"TIME" json:"as_of,omitzero"`
	Days  int    `help:"How many days a report may take until what it lacks is a difference. Default: 3." default:"3" placeholder:"N" json:"days"`
	CSV   bool   `help:"Print CSV." json:"-"`
}

// Help is shown by --help.
func (Reconcile) Help() string {
	return `Compares what was paid, refunded and lost here with what providers report. One line for each
difference, the oldest first:

  not_reported       paid, refunded or lost here, and in no report for some days: ask for the
                     report, or whether it was paid at all
  not_paid_here      a report has it, and no outcome: look at the provider what became of it
                     (payledger payments ask), or resolve it
  unknown_reference, amount_differs, currency_differs, settled_before, other
                     a line in suspense: payledger settlement resolve
  report_incomplete  an import was interrupted: import its file again
  not_arrived        a report says that it was paid out, and it has not arrived for some days: look at
                     the bank (payledger payout arrived)
  arrived_unreported more has arrived than reports say, for some days: import the report; or a report
                     is below zero, and no later payout is less by that yet

AMOUNT is what the provider owes by it, and negative what it is owed by it. Money of an open
dispute is no difference. What was heard of before "settled_since" of its route in the routes file
need not be in a report, and is added up in the last line. Exit code 0 only if there is no
difference, else 1.`
}

// Validate refuses what would have no effect.
func (c Reconcile) Validate() error {
	if c.Days < 0 {
		return errors.New("--days: want 0 or more")
	}
	return nil
}

// todo is what to do about a difference.
func todo(d settlement.Difference) string {
	switch d.What {
	case settlement.NotReported:
		return "ask the provider for its report"
	case settlement.NotPaidHere:
		return "payledger payments ask " + d.PaymentID
	case settlement.ReportIncomplete:
		return "import its file again"
	case settlement.NotArrived:
		return "payledger payout arrived"
	case settlement.ArrivedUnreported:
		return "import the report, or wait where it is below zero"
	}
	return "payledger settlement resolve " + d.Line
}

// Run prints the differences.
func (c Reconcile) Run(a *cli.App) error {
	if c.CSV && a.JSON {
		return cli.Errorf(cli.ExitUsage, "--csv and --json: give one of them")
	}
	var raw jsontext.Value
	return ask(a, c, "GET /admin/reconcile", &raw, func() error {
		var r wire.Reconciliation
		err := json.Unmarshal(raw, &r)
		switch {
		case err != nil:
		case a.JSON:
			err = a.PrintJSON(raw)
		default:
			err = c.print(a, r)
		}
		if n := len(r.Differences); err == nil && n > 0 {
			return cli.Errorf(cli.ExitFailed, "differences that are open: %d", n)
		}
		return err
	})
}

func (c Reconcile) print(a *cli.App, r wire.Reconciliation) error {
	var rows [][]string
	halves := 0 // which have no amount
	for _, d := range r.Differences {
		rows = append(rows, texts(d.What, d.Days, d.Amount, d.Currency, d.Route, d.PaymentID, d.Line, d.Reference, todo(d)))
		if d.What == settlement.ReportIncomplete {
			halves++
		}
	}
	if c.CSV {
		text, _ := edge.AppendCSV(nil, "what", "days", "amount", "currency", "route", "payment_id", "line", "reference", "do", "project_id", "since") // a buffer takes everything
		for i, row := range rows {
			text = append(text, row[0]+","+row[1]+","+row[2]+","...) // an amount is no formula, and has to stay a number also below zero
			text, _ = edge.AppendCSV(text, append(row[3:], r.Differences[i].ProjectID, r.Differences[i].Since.String())...)
		}
		_, err := a.Stdout.Write(text)
		return err
	}
	if len(rows) > 0 {
		if err := a.PrintTable("", []string{"WHAT", "DAYS", "AMOUNT", "CURRENCY", "ROUTE", "PAYMENT", "LINE", "REFERENCE", "DO"}, rows); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.Stdout, "Matched %d lines as of position %d. ", r.Matched, r.Position)
	var open []string
	if len(r.Remainder) > 0 {
		open = append(open, sums(r.Remainder, "differences"))
	}
	if halves > 0 {
		open = append(open, cli.Count(uint64(halves), "incomplete report"))
	}
	if len(open) == 0 {
		fmt.Fprintln(a.Stdout, "Nothing is open.")
	} else {
		fmt.Fprintf(a.Stdout, "Open: %s.\n", strings.Join(open, ", "))
	}
	if len(r.NotExpected) > 0 {
		fmt.Fprintf(a.Stdout, "Not expected in reports: %s.\n", sums(r.NotExpected, "payments"))
	}
	return nil
}

// sums writes what things add up to.
func sums(all []settlement.Remainder, things string) string {
	texts := make([]string, len(all))
	for i, of := range all {
		texts[i] = fmt.Sprintf("%d %s, %s %s", of.Count, things, of.Amount, of.Currency)
	}
	return strings.Join(texts, ", ")
}
