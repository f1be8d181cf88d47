package projections

import (
	"slices"
	"testing"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
)

// TestLinesResolvedLater: a line in the operator's book that settles a project's payment is a line of the
// project from then on, and the report is in its list; the row says what it would if the line had been
// settled from the first, also when it is folded again.
func TestLinesResolvedLater(t *testing.T) {
	t.Parallel()
	const operator, report = eventstore.KindInstallation, "r"
	id := settlement.ID(domain.SandboxRoute, report)
	for name, c := range map[string]struct {
		to              settlement.Resolution
		first           bool // it is settled when the report is recorded
		closed          bool // the report is, when it is resolved
		lines           int
		result          settlement.Result
		later, resolved []int
	}{
		"settled at once":              {first: true, closed: true, lines: 1, result: settlement.Settled},
		"matched":                      {to: settlement.Matched, lines: 1, result: settlement.Settled, later: []int{2}},
		"matched after the report":     {to: settlement.Matched, closed: true, lines: 1, result: settlement.Settled, later: []int{2}},
		"by the operator":              {to: settlement.ToPayment, lines: 1, result: settlement.UnknownReference, later: []int{2}, resolved: []int{2}},
		"by the operator, and it ends": {to: settlement.ToPayment, closed: true, lines: 1, result: settlement.UnknownReference, later: []int{2}, resolved: []int{2}},
		"a fee":                        {to: settlement.ToFee, closed: true},
		"written off":                  {to: settlement.WriteOff, closed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := seeded(t, 1)
			w.steps(30)
			p := w.Payments[w.Order[0]]
			var all settlement.Summary
			texts := map[string][]settlement.Text{}
			for n := range 3 {
				e := settlement.Entry{Result: settlement.UnknownReference, Line: settlement.Line{
					Number: n + 1, Kind: settlement.KindPayment, Reference: "x", Gross: domain.SumOf(100), Net: domain.SumOf(100), Currency: "RUB", SettledOn: "2026-11-20",
				}}
				all = all.Add(e.Line)
				of := operator
				if n == 1 && c.first {
					of, e.Result, e.PaymentID = p.Project, settlement.Settled, p.ID.String()
				}
				texts[of] = append(texts[of], e.Text())
			}
			reports := func(command settlement.ReportsCommand) {
				execute(t, w, eventstore.ReportsStream(domain.SandboxRoute), settlement.Reports{Route: domain.SandboxRoute}, command)
			}
			book := func(of string, command settlement.BookCommand) {
				execute(t, w, eventstore.BookStream(of, id), settlement.Book{Project: of, Route: domain.SandboxRoute, Report: report}, command)
			}
			ends := func() { reports(settlement.CloseReport{Report: report, Recorded: all}) }
			reports(settlement.OpenReport{At: domain.InstantOf(w.Now), Report: settlement.Report{
				Route: domain.SandboxRoute, Report: report, SHA256: domain.Digest{1}, FeesPaidBy: settlement.ByOperator, Summary: all,
			}})
			for _, of := range []string{operator, p.Project} {
				if len(texts[of]) > 0 {
					book(of, settlement.RecordLines{FeesPaidBy: settlement.ByOperator, Lines: texts[of]})
				}
			}
			if c.closed {
				ends()
			}
			if !c.first {
				r := settlement.ResolveLine{Number: 2, To: c.to, Reason: "x"}
				if c.to == settlement.Matched {
					r.Reason = ""
				}
				if c.to.Settles() {
					r.Payment, r.Project, r.Settles, r.Currency, r.FeesPaidBy = p.ID.String(), p.Project, domain.SumOf(100), "RUB", settlement.ByOperator
				}
				book(operator, r)
			}
			if !c.closed {
				ends()
			}
			for range 2 {
				e := open(t, w.config(t.TempDir()))
				feed(t, e)
				s, listed, err := e.Settlement(t.Context(), p.Project, id)
				must(t, err)
				if listed != (c.lines > 0) || s.Recorded.Lines != c.lines || s.Waiting != 0 || s.Closed != listed || !slices.Equal(s.Resolved, c.resolved) {
					t.Errorf("listed %v: %+v", listed, s)
				}
				if listed && s.Recorded.Totals[0].Net != domain.SumOf(100) {
					t.Errorf("%+v", s.Recorded)
				}
				for after, want := range map[int][]int{0: c.later, 1: c.later, 2: nil, 3: nil} {
					found, err := e.LaterLines(t.Context(), p.Project, id, after, 9)
					must(t, err)
					var got []int
					for _, f := range found {
						if got = append(got, f.Number); f.Result != c.result || f.PaymentID != p.ID.String() {
							t.Errorf("%+v", f)
						}
					}
					if !slices.Equal(got, want) {
						t.Errorf("after %d: %v, want %v", after, got, want)
					}
				}
				by, err := e.SettledBy(t.Context(), p.Project, p.ID)
				must(t, err)
				if len(by) != c.lines || len(by) > 0 && by[0].Number != 2 {
					t.Errorf("settled by %+v", by)
				}
			}
		})
	}
}

func execute[S eventstore.Aggregate[S, C], C any](t *testing.T, w *world, s eventstore.Stream, start S, c C) {
	t.Helper()
	if _, err := eventstore.Execute(t.Context(), w.Ledger(), s, start, c, eventstore.Order{EventID: w.IDs.Next()}); err != nil {
		t.Fatalf("%T: %v", c, err)
	}
}
