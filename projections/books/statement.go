package books

import (
	"cmp"
	"context"
	"math"
	"slices"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/projections/table"
)

// JournalQuery asks for postings, oldest first unless Newest is set. Empty
// members match everything.
type JournalQuery struct {
	Project  string
	Account  domain.Account
	Currency domain.Currency
	From, To domain.Instant // of the log as of From or later, and before To: see PositionAt
	Newest   bool           // newest first
	After    JournalPlace   // cursor: the place of the last line of the page before
	Limit    int            // 1 to MaxLimit; cut to these bounds
}

// JournalPlace is the place of a line in the journal, which is ordered by
// position and, within an event, by currency, account and project.
type JournalPlace struct {
	Position eventstore.Position
	Currency domain.Currency
	Account  domain.Account
	Project  string
}

// Place is the line's place in the journal.
func (l JournalLine) Place() JournalPlace {
	return JournalPlace{l.Position, l.Currency, l.Account, l.Project}
}

func (p JournalPlace) compare(o JournalPlace) int {
	return cmp.Or(cmp.Compare(p.Position, o.Position), cmp.Compare(p.Currency, o.Currency), cmp.Compare(p.Account, o.Account), cmp.Compare(p.Project, o.Project))
}

// order compares places in the order of the query.
func (q JournalQuery) order(a, b JournalPlace) int {
	if q.Newest {
		a, b = b, a
	}
	return a.compare(b)
}

// JournalPage is a page of the journal, in the order of its query.
type JournalPage struct {
	Lines []JournalLine
	More  bool // others follow
}

// Journal returns the page of postings that the query asks for, merged from
// the accounts that match.
func (b *Books) Journal(ctx context.Context, q JournalQuery) (JournalPage, error) {
	if _, err := b.log.Fresh(ctx, eventstore.Filter{}); err != nil {
		return JournalPage{}, err
	}
	lo, hi, err := b.span(ctx, q)
	if err != nil {
		return JournalPage{}, err
	}
	accounts, last := b.accountsOf(q.Project, func(a *account) bool {
		return (q.Account == "" || a.Account == q.Account) && (q.Currency == "" || a.Currency == q.Currency) && a.Position >= lo
	})
	want := min(max(q.Limit, 1), MaxLimit) + 1
	hi = min(hi, last)
	var lines []JournalLine
	for _, a := range accounts {
		found, err := b.linesOf(ctx, a, lo, hi, want, q)
		if err != nil {
			return JournalPage{}, err
		}
		// The accounts so far fill a page: lines of the others that lie beyond it
		// need not be read.
		if lines = append(lines, found...); len(lines) > want {
			lines = q.firstLines(lines, want)
			if q.Newest {
				lo = max(lo, lines[want-1].Position)
			} else {
				hi = min(hi, lines[want-1].Position)
			}
		}
	}
	page := JournalPage{Lines: q.firstLines(lines, want)}
	if page.More = len(page.Lines) == want; page.More {
		page.Lines = page.Lines[:want-1]
	}
	return page, b.explain(ctx, page.Lines)
}

// explain adds what the events say to lines in the order of the log.
func (b *Books) explain(ctx context.Context, lines []JournalLine) error {
	for i := range lines {
		l := &lines[i]
		if i > 0 && lines[i-1].Position == l.Position {
			of := lines[i-1]
			l.At, l.Event, l.Type, l.Payment, l.Refund, l.Payout, l.Undoes, l.Report = of.At, of.Event, of.Type, of.Payment, of.Refund, of.Payout, of.Undoes, of.Report
			continue
		}
		r, e, err := b.log.EventAt(ctx, l.Position)
		if err != nil {
			return err
		}
		l.At, l.Event, l.Type, l.Refund = domain.IDTime(r.Commit), r.Commit, e.Type(), domain.FactsOf(e).Refund
		l.Payment, _ = domain.ParseID(r.Stream.ID)
		if r.Stream.Kind == eventstore.KindSettlement {
			l.Report = r.Stream.ID
		}
		if p, ok := e.(settlement.PayoutEvent); ok {
			l.Payout, l.Undoes = p.Payout(), l.Type == settlement.TypePayoutUndone
		}
	}
	return nil
}

// span is the positions, both inclusive, that a query is about.
func (b *Books) span(ctx context.Context, q JournalQuery) (lo, hi eventstore.Position, err error) {
	lo, hi = 1, 1<<63-1
	if q.From > 0 {
		before, err := b.times.positionAt(ctx, q.From-1)
		if err != nil {
			return 0, 0, err
		}
		lo = max(lo, before+1)
	}
	if q.To > 0 {
		if hi, err = b.times.positionAt(ctx, q.To-1); err != nil {
			return 0, 0, err
		}
	}
	switch at := q.After.Position; {
	case at == 0:
	case q.Newest:
		hi = min(hi, at)
	default:
		lo = max(lo, at)
	}
	return lo, hi, nil
}

func (b *Books) linesOf(
	ctx context.Context, a *account, lo, hi eventstore.Position, n int, q JournalQuery,
) ([]JournalLine, error) {
	if lo > hi {
		return nil, nil
	}
	// The line at the cursor's own position may have been shown.
	found, err := b.journal.First(ctx, table.Range{Lo: a.line(lo), Hi: a.line(hi + 1)}, q.Newest, n+1)
	if err != nil {
		return nil, err
	}
	lines := make([]JournalLine, 0, len(found))
	for _, f := range found {
		l := JournalLine{
			Position: positionOf(f.Key), Project: a.Project, Account: a.Account, Currency: a.Currency,
			Amount: f.Value.Amount, Balance: f.Value.Balance,
		}
		if q.After.Position == 0 || q.order(l.Place(), q.After) > 0 {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// firstLines are the first n in the order of the query.
func (q JournalQuery) firstLines(lines []JournalLine, n int) []JournalLine {
	slices.SortFunc(lines, func(a, b JournalLine) int { return q.order(a.Place(), b.Place()) })
	return lines[:min(n, len(lines))]
}

// Fees are what providers' fees have taken of what the merchant of a project is owed, by currency, in the
// time of the query.
func (b *Books) Fees(ctx context.Context, q JournalQuery) (map[domain.Currency]domain.Sum, error) {
	if _, err := b.log.Fresh(ctx, eventstore.Filter{}); err != nil {
		return nil, err
	}
	lo, hi, err := b.span(ctx, q)
	if err != nil {
		return nil, err
	}
	accounts, last := b.accountsOf(q.Project, func(a *account) bool {
		return a.Account == domain.MerchantPayable && (q.Currency == "" || a.Currency == q.Currency)
	})
	fees := make(map[domain.Currency]domain.Sum)
	for _, a := range accounts {
		lines, err := b.fees.First(ctx, table.Range{Lo: a.line(lo), Hi: a.line(min(hi, last) + 1)}, false, math.MaxInt)
		if err != nil {
			return nil, err
		}
		for _, l := range lines {
			fees[a.Currency] = fees[a.Currency].Add(l.Value.Amount)
		}
	}
	return fees, nil
}
