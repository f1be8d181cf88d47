package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

// books are the views of the settler, folded when they are read, and the import of reports.
type books struct {
	bustest.Views
	t *testing.T
}

func (b books) events(fn func(eventstore.Stored, domain.Event)) {
	for _, r := range b.Records(b.t) {
		e, err := b.Codec.Event(r)
		if err != nil {
			b.t.Fatal(err)
		}
		fn(r, e)
	}
}

// EachBook implements SettlementView.
func (b books) EachBook(_ context.Context, fn func(eventstore.Stream) error) error {
	var err error
	seen := map[eventstore.Stream]bool{}
	b.events(func(r eventstore.Stored, _ domain.Event) {
		if r.Stream.Kind == eventstore.KindSettlement && !seen[r.Stream] && err == nil {
			seen[r.Stream], err = true, fn(r.Stream)
		}
	})
	return err
}

// PaymentOfLine implements SettlementView.
func (b books) PaymentOfLine(ctx context.Context, route string, l settlement.Line) (domain.Payment, error) {
	all, err := b.All(ctx)
	for _, p := range all {
		if p.ID.String() == l.PaymentID || l.PaymentID == "" && p.Route == route && l.Names(p) {
			return p, err
		}
	}
	return domain.Payment{}, err
}

// Cleared implements SettlementView.
func (b books) Cleared(_ context.Context, id domain.ID) (c settlement.Cleared, _ error) {
	b.events(func(_ eventstore.Stored, e domain.Event) {
		switch e := e.(type) {
		case settlement.ReportLines:
			for _, t := range e.Lines {
				if l, _ := t.Entry(); l.Result == settlement.Settled && l.PaymentID == id.String() {
					c = c.With(l.Line, "")
				}
			}
		case settlement.LineResolved:
			if l, _ := e.Line.Entry(); e.To.Settles() && e.Payment == id.String() {
				c = c.With(l.Line, "")
			}
		}
	})
	return c, nil
}

// settle records a command on a book.
func (b books) settle(project, report string, c settlement.BookCommand) {
	b.t.Helper()
	_, err := eventstore.Execute(b.t.Context(), b.Ledger, eventstore.BookStream(project, settlement.ID(domain.SandboxRoute, report)),
		settlement.Book{Project: project, Route: domain.SandboxRoute, Report: report}, c, eventstore.Order{EventID: b.IDs.Next()})
	if err != nil {
		b.t.Fatal(err)
	}
}

// imports records a line as the only one of a report.
func (b books) imports(report string, l settlement.Line) settlement.Result {
	b.t.Helper()
	l.Number = 1
	p, _ := b.PaymentOfLine(b.t.Context(), domain.SandboxRoute, l)
	cleared, _ := b.Cleared(b.t.Context(), p.ID)
	project, e := eventstore.KindInstallation, settlement.Entry{Line: l, Result: settlement.Judge(domain.SandboxRoute, l, p, cleared.Of(l))}
	if e.Result.OfPayment() {
		project, e.PaymentID = p.Project, p.ID.String()
	}
	b.settle(project, report, settlement.RecordLines{FeesPaidBy: settlement.ByMerchant, Lines: []settlement.Text{e.Text()}})
	return e.Result
}

// balances are those of all books, by project if that is wanted.
func (b books) balances(byProject bool) map[string]string {
	sums := map[string]domain.Sum{}
	b.events(func(r eventstore.Stored, e domain.Event) {
		for _, p := range domain.Postings(e) {
			at := fmt.Sprint(p.Account, " ", p.Currency)
			switch {
			case byProject && p.Project != "":
				at += " " + p.Project
			case byProject:
				at += " " + r.Stream.Project
			}
			sums[at] = sums[at].Add(p.Amount)
		}
	})
	all := map[string]string{}
	for at, sum := range sums {
		if sum.Sign() != 0 {
			all[at] = sum.String()
		}
	}
	return all
}

func (b books) settler() *settler {
	return newSettler(Config{Ledger: b.Ledger, IDs: b.IDs, Settlements: b, Settling: new(sync.Mutex), Log: zerolog.New(zerolog.NewTestWriter(b.t))})
}

func newBooks(t *testing.T) books { return books{bustest.Views{Book: bustest.NewBook(t)}, t} }

func lineOf(kind settlement.Kind, reference string, gross, fee domain.Amount) settlement.Line {
	return settlement.Line{
		Kind: kind, Reference: reference, Gross: domain.SumOf(gross), Fee: domain.SumOf(fee), Net: domain.SumOf(gross - fee), Currency: "RUB", SettledOn: "2026-11-20",
	}
}

func signalOf(p domain.Payment, o domain.Outcome, reference string, refund *domain.ID) domain.ApplySignal {
	s := bustest.Paid(p)
	s.Outcome, s.Reference, s.RefundID = o, reference, refund
	return domain.ApplySignal{Signal: s}
}

// TestReportsAndOutcomesInAnyOrder: payments are paid, refunded and disputed, and reports have lines of
// all that, some of which do not fit. Whatever comes first, and whenever the settler is started anew, the
// balances are the same in the end, and so are the disputes.
func TestReportsAndOutcomesInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		type act struct {
			do   func(books, domain.Payment) // nil: line is imported
			line settlement.Line
			byID bool
		}
		refunds := act{do: func(b books, p domain.Payment) {
			id, event := b.IDs.Pair()
			b.Do(b.t, p.ID, domain.CreateRefund{At: domain.IDTime(event), RefundID: id})
		}}
		const all = 150000
		payments := rapid.IntRange(1, 3).Draw(rt, "payments")
		outcomes, lines, fit := make([][]act, payments), make([][]act, payments), true
		for i := range payments {
			tells := func(o domain.Outcome, reference string) act {
				return act{do: func(b books, p domain.Payment) {
					var refund *domain.ID
					if len(p.Refunds) > 0 && (o == domain.OutcomeSucceeded || o == domain.OutcomeReturned) {
						refund = &p.Refunds[0].ID
					}
					b.Do(b.t, p.ID, signalOf(p, o, fmt.Sprint(reference, i), refund))
				}}
			}
			says := func(kind settlement.Kind, reference string, gross domain.Amount, byID bool) {
				l := lineOf(kind, fmt.Sprint(reference, i), gross, domain.Amount(rapid.IntRange(0, 2).Draw(rt, "fee"))*100)
				if rapid.IntRange(0, 9).Draw(rt, "wrong") == 0 {
					l.Currency, fit = "EUR", false
				}
				lines[i] = append(lines[i], act{line: l, byID: byID || rapid.Bool().Draw(rt, "by id")})
			}
			outcomes[i] = []act{tells("paid", "pay")}
			says(settlement.KindPayment, "pay", all, false)
			switch rapid.SampledFrom([]string{"paid", "twice", "refunded", "returned", "by hand", "disputed", "unheard"}).Draw(rt, "what") {
			case "twice":
				outcomes[i] = append(outcomes[i], tells("paid", "again"))
				says(settlement.KindPayment, "again", all, false)
			case "refunded":
				outcomes[i] = append(outcomes[i], refunds, tells("succeeded", "back"))
				says(settlement.KindRefund, "back", -all, false)
			case "returned":
				outcomes[i] = append(outcomes[i], refunds, tells("succeeded", "back"), tells("returned", "back"))
				says(settlement.KindRefund, "back", -all, false)
				says(settlement.KindRefund, "back", all, false)
			case "by hand":
				outcomes[i] = append(outcomes[i], act{do: func(b books, p domain.Payment) {
					b.Do(b.t, p.ID, domain.RecordProviderRefund{ProviderRefund: domain.ProviderRefund{
						Reference: p.PaidReference, RefundReference: fmt.Sprint("hand", i), Amount: all / 3, Currency: p.Currency,
					}})
				}})
				says(settlement.KindRefund, "hand", -all/3, false)
			case "disputed":
				outcomes[i] = append(outcomes[i], tells("disputed", "dispute"))
				says(settlement.KindDispute, "dispute", -all, false)
				switch rapid.SampledFrom([]string{"open", "won", "lost"}).Draw(rt, "end") {
				case "won":
					outcomes[i] = append(outcomes[i], tells("dispute_won", "dispute"))
					says(settlement.KindDispute, "dispute", all, false)
				case "lost":
					outcomes[i] = append(outcomes[i], tells("dispute_lost", "dispute"))
				}
			case "unheard": // but from reports
				says(settlement.KindDispute, "dispute", -all/3, true)
				if rapid.Bool().Draw(rt, "won") {
					says(settlement.KindDispute, "dispute", all/3, true)
				}
			}
		}
		run := func(name string) (map[string]string, []string) {
			b := newBooks(t)
			ids := make([]domain.ID, payments)
			var queues [][]act // each in its order
			of := []int{}
			for i := range payments {
				ids[i] = b.Routed(t).ID
				queues, of = append(queues, outcomes[i]), append(of, i)
				for _, l := range lines[i] {
					queues, of = append(queues, []act{l}), append(of, i)
				}
			}
			s, n := b.settler(), 0
			for {
				var can []int
				for i, q := range queues {
					if len(q) > 0 {
						can = append(can, i)
					}
				}
				if len(can) == 0 {
					break
				}
				i := rapid.SampledFrom(can).Draw(rt, name)
				next, p := queues[i][0], b.Book.Payment(t, ids[of[i]])
				queues[i] = queues[i][1:]
				if next.do != nil {
					next.do(b, p)
				} else {
					l := next.line
					if next.byID {
						l.PaymentID = p.ID.String()
					}
					n++
					b.imports(fmt.Sprint("r", n), l)
				}
				switch rapid.IntRange(0, 3).Draw(rt, "settler") {
				case 0:
					s = b.settler()
				case 1:
					if err := s.step(t.Context()); err != nil {
						rt.Fatal(err)
					}
				}
			}
			for range 2 { // the second hears of what the first has recorded
				if err := s.step(t.Context()); err != nil {
					rt.Fatal(err)
				}
			}
			var disputes []string
			for i, id := range ids {
				for _, d := range b.Book.Payment(t, id).Disputes {
					disputes = append(disputes, fmt.Sprint(i, d.Reference, d.Status, d.Amount))
				}
			}
			return b.balances(fit), disputes
		}
		one, said := run("order")
		other, saidThen := run("another order")
		if !maps.Equal(one, other) || !slices.Equal(said, saidThen) {
			rt.Fatalf("%v, %v\n%v, %v", one, said, other, saidThen)
		}
	})
}

// unread are books that cannot be read.
type unread struct{ books }

func (unread) EachBook(context.Context, func(eventstore.Stream) error) error {
	return errors.New("the disk is full")
}

// TestSettlerTellsItsTroubleOnce: what prevents it for minutes is one line in the log.
func TestSettlerTellsItsTroubleOnce(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.Routed(t)
	synctest.Test(t, func(t *testing.T) {
		var log healthtest.Buffer
		s := newSettler(Config{Ledger: b.Ledger, IDs: b.IDs, Settlements: unread{b}, Settling: new(sync.Mutex), Log: zerolog.New(&log)})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if err := s.run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "the disk is full") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}

// TestSettlerMatchesLater: what a line says is booked and recorded once its payment is known and paid,
// whatever goes wrong meanwhile; what does not fit stays where it is.
func TestSettlerMatchesLater(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	step := func(s *settler) {
		t.Helper()
		if err := s.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p := b.Routed(t)
	id := p.ID.String()
	ofPayment := func(l settlement.Line) settlement.Line { l.PaymentID = id; return l }
	for report, l := range map[string]settlement.Line{
		"a": lineOf(settlement.KindPayment, "pay", 150000, 100), "less": lineOf(settlement.KindPayment, "pay", 149999, 0),
		"resolved": lineOf(settlement.KindPayment, "again", 150000, 0), "nobody's": lineOf(settlement.KindPayment, "else", 150000, 0),
	} {
		if got := b.imports(report, l); got != settlement.UnknownReference {
			t.Errorf("%s is %s", report, got)
		}
	}
	for report, l := range map[string]settlement.Line{
		"taken": lineOf(settlement.KindDispute, "dp", -50000, 1500), "back": lineOf(settlement.KindDispute, "won", 700, 0),
	} {
		if got := b.imports(report, ofPayment(l)); got != settlement.Settled {
			t.Errorf("%s is %s", report, got)
		}
	}
	s := b.settler()
	step(s)
	quiet := b.Last(t)
	step(s)
	if got := b.Book.Payment(t, p.ID); got.Status != domain.AwaitingPayment || len(got.Disputes) > 0 || b.Last(t) != quiet {
		t.Errorf("%+v", got)
	}
	b.Do(t, p.ID, signalOf(p, "paid", "pay", nil))
	b.Do(t, p.ID, signalOf(p, "paid", "again", nil))
	b.settle(eventstore.KindInstallation, "resolved", settlement.ResolveLine{Number: 1, To: settlement.WriteOff, Reason: "x"})

	failing := &bustest.Failing{Store: b.Store, Left: make(chan error, 9)}
	s.Ledger.Store = failing
	for range 4 { // the disk is full, and another was first
		failing.Left <- eventstore.ErrFull
		if err := s.step(t.Context()); !errors.Is(err, eventstore.ErrFull) {
			t.Errorf("%v", err)
		}
	}
	step(s)
	step(s)
	var got []string
	for _, d := range b.Book.Payment(t, p.ID).Disputes {
		got = append(got, fmt.Sprint(d.Reference, " ", d.Status, " ", d.Amount))
	}
	slices.Sort(got)
	if want := []string{"dp open 500.00", "won won 7.00"}; !slices.Equal(got, want) {
		t.Errorf("disputes %q, want %q", got, want)
	}
	var resolved []string
	b.events(func(r eventstore.Stored, e domain.Event) {
		if e, ok := e.(settlement.LineResolved); ok {
			resolved = append(resolved, fmt.Sprint(e.Report, " ", e.To, " ", e.Settles, " ", e.Project, " ", e.Reason))
		}
	})
	if want := []string{"resolved write_off 0.00  x", "a matched 1500.00 prj_test "}; !slices.Equal(resolved, want) {
		t.Errorf("resolved %q, want %q", resolved, want)
	}
	if s.unknown["pay"] == nil || s.unknown["else"] == nil || len(s.unknown) != 2 || len(s.disputes) > 0 {
		t.Errorf("%v, %v", s.unknown, s.disputes)
	}

	// The provider's own word, later and with the same reference, changes nothing; nor does the report
	// in the eyes of a settler that begins anew.
	last := b.Last(t)
	taken := signalOf(p, "disputed", "dp", nil)
	taken.Signal.Amount = 50000
	b.Do(t, p.ID, taken)
	s = b.settler()
	step(s)
	if b.Last(t) != last {
		t.Errorf("%d records more", b.Last(t)-last)
	}
	// Nor does a line after that word.
	taken.Signal.Reference, taken.Signal.Outcome = "heard", domain.OutcomeDisputeLost
	b.Do(t, p.ID, taken)
	b.imports("heard", ofPayment(lineOf(settlement.KindDispute, "heard", -50000, 0)))
	last = b.Last(t)
	step(s)
	if d, _ := b.Book.Payment(t, p.ID).Dispute("heard"); d.Status != domain.DisputeLost || b.Last(t) != last {
		t.Errorf("%+v", d)
	}
}
