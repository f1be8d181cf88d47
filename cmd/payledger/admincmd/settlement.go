package admincmd

import (
	"payledger/cmd/payledger/cli"
	"payledger/domain/settlement"
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
			for _, t := range s.Totals {
				rows = append(rows, texts(s.ID, s.Status, s.From, s.To, t.Lines, s.Waiting, t.Gross, t.Fee, t.Net, t.Currency))
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
	Payment  string `xor:"to" required:"" help:"It is for this payment, whose amount it clears in the payment's own currency." placeholder:"PAYMENT_ID" json:"payment_id,omitzero"`
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
