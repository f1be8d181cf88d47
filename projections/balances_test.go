package projections

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/books"
)

// lines is the whole journal, worked out from the log alone.
func (w *world) lines() []books.JournalLine {
	w.TB.Helper()
	balances := make(map[string]domain.Sum)
	var all []books.JournalLine
	for r, err := range w.Store.Scan(w.TB.Context(), 0, eventstore.Filter{}) {
		must(w.TB, err)
		event, err := w.Codec.Decode(r)
		must(w.TB, err)
		var of []books.JournalLine
		for _, p := range domain.Postings(event) {
			project := cmp.Or(p.Project, r.Stream.Project)
			name := fmt.Sprintf("%q %q %q", project, p.Currency, p.Account)
			balances[name] = balances[name].Add(p.Amount)
			payment, _ := domain.ParseID(r.Stream.ID)
			of = append(of, books.JournalLine{
				Position: r.Position, At: domain.InstantOf(r.At), Project: project, Event: r.Commit, Type: event.Type(),
				Payment: payment, Refund: domain.FactsOf(event).Refund, Account: p.Account, Currency: p.Currency, Amount: p.Amount, Balance: balances[name],
			})
		}
		slices.SortFunc(of, func(a, b books.JournalLine) int {
			return cmp.Or(cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Project, b.Project))
		})
		all = append(all, of...)
	}
	return all
}

// beginning is the position before the first event later than the time.
func (w *world) beginning(at domain.Instant) (last eventstore.Position) {
	w.TB.Helper()
	for r, err := range w.Store.Scan(w.TB.Context(), 0, eventstore.Filter{}) {
		must(w.TB, err)
		if domain.InstantOf(r.At) > at {
			return last
		}
		last = r.Position
	}
	return last
}

// summed is what the lines up to a position leave on each account.
func summed(lines []books.JournalLine, project string, at eventstore.Position) []books.Balance {
	newest := make(map[string]books.Balance)
	for _, l := range lines {
		if l.Position <= at && (project == "" || l.Project == project) {
			newest[l.Project+" "+string(l.Currency)+" "+string(l.Account)] = books.Balance{Project: l.Project, Currency: l.Currency, Account: l.Account, Balance: l.Balance}
		}
	}
	var out []books.Balance
	for _, b := range newest {
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b books.Balance) int {
		return cmp.Or(strings.Compare(a.Project, b.Project), cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Account, b.Account))
	})
	return out
}

// instant draws a time at, just before or just after an event.
func (w *world) instant() domain.Instant {
	all := make([]eventstore.Stored, 0, 64)
	for r, err := range w.Store.Scan(w.TB.Context(), 0, eventstore.Filter{}) {
		must(w.TB, err)
		all = append(all, r)
	}
	return domain.InstantOf(pick(w, all...).At) + domain.Instant(w.Intn(3)-1)
}

// misorder steps the time of the world's ids back, as when commands overtake
// each other on their way into the log.
func (w *world) misorder() {
	if w.Intn(6) > 0 {
		return
	}
	now := w.Now
	w.Now = now.Add(-time.Duration(w.Intn(120)) * pick(w, time.Second, time.Millisecond))
	w.IDs = domain.NewIDs(func() time.Time { return w.Now }, w.Random, domain.ID{})
	w.Step()
	w.Now = now
}

func TestBooksAgainstAModel(t *testing.T) {
	t.Parallel()
	compared, misordered := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") })
		c := w.config(t.TempDir())
		e := open(t, c)
		for range 4 {
			for range rapid.IntRange(10, 40).Draw(rt, "steps") {
				w.Step()
				w.misorder()
			}
			feed(t, e)
			switch rapid.IntRange(0, 3).Draw(rt, "then") {
			case 0:
				must(t, e.flush())
			case 1:
				must(t, e.flush())
				must(t, e.Close())
				e = open(t, c)
			}
		}
		now, err := e.Balances(t.Context(), "", books.Now)
		must(t, err)
		suspense := make(map[domain.Currency]domain.Sum)
		for _, b := range now.Balances {
			if b.Account == domain.Suspense {
				suspense[b.Currency] = suspense[b.Currency].Add(b.Balance)
			}
		}
		if got := e.Suspense(); !maps.Equal(got, suspense) {
			t.Fatalf("suspense: %v, want %v", got, suspense)
		}
		lines := w.lines()
		for i := 1; i < len(lines); i++ {
			if lines[i].At < lines[i-1].At {
				misordered++
			}
		}
		for range 12 {
			project := pick(w, append([]string{""}, w.Projects...)...)
			as, at := books.Now, w.Last()
			switch w.Intn(3) {
			case 0:
				at = eventstore.Position(w.Intn(int(at) + 1))
				as = at
			case 1:
				time := w.instant()
				at, as = w.beginning(time), positionAt(t, e, time)
			}
			books, err := e.Balances(t.Context(), project, as)
			must(t, err)
			want := summed(lines, project, at)
			if books.Position != at || !slices.Equal(books.Balances, want) {
				rt.Fatalf("%q as of %+v: at %d %v\nwant at %d %v", project, as, books.Position, books.Balances, at, want)
			}
			total := make(map[domain.Currency]domain.Sum)
			for _, b := range books.Balances {
				total[b.Currency] = total[b.Currency].Add(b.Balance)
			}
			for c, s := range total {
				if s != (domain.Sum{}) {
					rt.Fatalf("%s %s are left over", s, c)
				}
			}
			compared += len(want)
		}
		must(t, e.Close())
	})
	if drawsMany() && (compared == 0 || misordered == 0) {
		t.Errorf("%d balances compared, %d lines out of order in time", compared, misordered)
	}
}

func TestStatementAgainstAModel(t *testing.T) {
	t.Parallel()
	listed := 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") })
		e := open(t, w.config(t.TempDir()))
		for range rapid.IntRange(40, 150).Draw(rt, "steps") {
			w.Step()
			w.misorder()
		}
		feed(t, e)
		if rapid.Bool().Draw(rt, "flush") {
			must(t, e.flush())
			w.Steps(20)
			feed(t, e)
		}
		lines := w.lines()
		for range 8 {
			q := books.JournalQuery{Project: pick(w, append([]string{""}, w.Projects...)...), Newest: w.Intn(2) == 0}
			if w.Intn(2) == 0 {
				q.Account = pick(w, domain.MerchantPayable, domain.RefundsInFlight, domain.Suspense, domain.AcquirerReceivable("sandbox"), "none")
			}
			if w.Intn(3) == 0 {
				q.Currency = pick[domain.Currency](w, "RUB", "USD", "EUR")
			}
			lo, hi := eventstore.Position(1), w.Last()
			if w.Intn(3) == 0 {
				q.From = w.instant()
				lo = w.beginning(q.From-1) + 1
			}
			if w.Intn(3) == 0 {
				q.To = w.instant()
				hi = w.beginning(q.To - 1)
			}
			var want []books.JournalLine
			for _, l := range lines {
				if (q.Project == "" || l.Project == q.Project) && (q.Account == "" || l.Account == q.Account) &&
					(q.Currency == "" || l.Currency == q.Currency) && l.Position >= lo && l.Position <= hi {
					want = append(want, l)
				}
			}
			if q.Newest {
				slices.Reverse(want)
			}
			var got []books.JournalLine
			for {
				q.Limit = 1 + w.Intn(5)
				page, err := e.Journal(t.Context(), q)
				must(t, err)
				got = append(got, page.Lines...)
				if len(page.Lines) > q.Limit || page.More && len(page.Lines) != q.Limit {
					rt.Fatalf("%d lines, more %v, limit %d", len(page.Lines), page.More, q.Limit)
				}
				if !page.More {
					break
				}
				q.After = page.Lines[len(page.Lines)-1].Place()
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("%+v:\n got %v\nwant %v", q, got, want)
			}
			listed += len(want)
		}
		must(t, e.Close())
	})
	if drawsMany() && listed == 0 {
		t.Error("no line was ever listed")
	}
}

func positionAt(t *testing.T, e *Engine, at domain.Instant) eventstore.Position {
	t.Helper()
	p, err := e.PositionAt(t.Context(), at)
	must(t, err)
	return p
}

// TestATimeBehindUsChangesNoMore asks for a time, lets an event of an earlier
// time arrive behind a later one, and asks again.
func TestATimeBehindUsChangesNoMore(t *testing.T) {
	t.Parallel()
	w := seeded(t, 41).steps(150)
	e := open(t, w.config(t.TempDir()))
	at := domain.InstantOf(w.Now) - 1
	before, err := e.Balances(t.Context(), "", positionAt(t, e, at))
	must(t, err)
	lines := len(w.lines())
	now := w.Now
	w.Now = now.Add(-time.Hour)
	w.IDs = domain.NewIDs(func() time.Time { return w.Now }, w.Random, domain.ID{})
	w.Steps(30)
	feed(t, e)
	if len(w.lines()) == lines {
		t.Fatal("nothing was posted out of order")
	}
	after, err := e.Balances(t.Context(), "", positionAt(t, e, at))
	must(t, err)
	if before.Position != after.Position || !slices.Equal(before.Balances, after.Balances) {
		t.Errorf("%+v became %+v", before, after)
	}
}

func TestBooksAtTheEnds(t *testing.T) {
	t.Parallel()
	w := seeded(t, 42)
	e := open(t, w.config(t.TempDir()))
	for name, as := range map[string]eventstore.Position{"now": books.Now, "position": 0, "time": positionAt(t, e, 1<<50), "before the epoch": positionAt(t, e, -1)} {
		if b, err := e.Balances(t.Context(), "", as); err != nil || b.Position != 0 || b.Time != 0 || len(b.Balances) != 0 {
			t.Errorf("an empty log, %s: %+v, %v", name, b, err)
		}
	}
	w.Steps(100)
	feed(t, e)
	var ahead *books.AheadError
	if _, err := e.Balances(t.Context(), "", w.Last()+1); !errors.As(err, &ahead) || ahead.Last != w.Last() {
		t.Errorf("ahead of the log: %v", err)
	}
	last, err := e.Balances(t.Context(), "", w.Last())
	must(t, err)
	now, err := e.Balances(t.Context(), "", books.Now)
	must(t, err)
	if now.Position != w.Last() || now.Time == 0 || now.Time != last.Time || !slices.Equal(now.Balances, last.Balances) || len(now.Balances) == 0 {
		t.Errorf("now %+v, at the end %+v", now, last)
	}
	if b, err := e.Balances(t.Context(), "prj_none", books.Now); err != nil || len(b.Balances) != 0 {
		t.Errorf("unknown project: %+v, %v", b, err)
	}
	if p, err := e.PositionAt(t.Context(), now.Time); err != nil || p > w.Last() || p == 0 {
		t.Errorf("position of the last event's time: %d, %v", p, err)
	}
}

// TestForeignCurrencies books money in what a provider called a currency.
func TestForeignCurrencies(t *testing.T) {
	t.Parallel()
	w := seeded(t, 43)
	w.Project()
	long := domain.Currency(strings.Repeat("x", 40_000))
	all := []domain.Currency{"rub", "a", "a\x00", "a\x00acquirer_receivable:x", "#", "%", "Ω", long, long + "1"}
	for i, c := range all {
		id, event := w.IDs.Pair()
		stream := eventstore.PaymentStream("prj_0", id)
		body, err := w.Codec.Encode(stream, 1, event, eventstore.Cause{}, domain.PaymentLateFunds{Reason: domain.ReasonWrongAmount, Signal: domain.Signal{
			Route: "x", Outcome: domain.OutcomePaid, Reference: "r", Amount: domain.Amount(i + 1), Currency: c, StartedAt: 1,
		}})
		must(t, err)
		_, err = eventstore.AppendOne(t.Context(), w.Store, eventstore.Commit{ID: event, Record: eventstore.Record{Stream: stream, Body: body}})
		must(t, err)
	}
	e := open(t, w.config(t.TempDir()))
	for i, c := range all {
		page, err := e.Journal(t.Context(), books.JournalQuery{Project: "prj_0", Currency: c, Account: domain.Suspense, Limit: 9})
		must(t, err)
		if len(page.Lines) != 1 || page.Lines[0].Amount != domain.SumOf(domain.Amount(-i-1)) || page.Lines[0].Currency != c {
			t.Errorf("%.20q: %.200v", c, page.Lines)
		}
	}
	books, err := e.Balances(t.Context(), "prj_0", books.Now)
	must(t, err)
	if len(books.Balances) != 2*len(all) {
		t.Errorf("%d balances", len(books.Balances))
	}
}
