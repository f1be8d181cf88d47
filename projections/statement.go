package projections

import (
	"cmp"
	"context"
	"slices"

	"payledger/domain"
	"payledger/eventstore"
)

// JournalQuery asks for postings, oldest first. Empty members match
// everything.
type JournalQuery struct {
	Project  string
	Account  domain.Account
	Currency domain.Currency
	From, To domain.Instant // of the log as of From or later, and before To: see AsOfTime
	After    JournalPlace   // cursor: where the last line of the page before stands
	Limit    int            // 1 to MaxLimit; cut to these bounds
}

// JournalPlace is where a line stands in the journal: lines are ordered by
// position and, within an event, by currency and account.
type JournalPlace struct {
	Position eventstore.Position
	Currency domain.Currency
	Account  domain.Account
}

// Place is where the line stands.
func (l JournalLine) Place() JournalPlace { return JournalPlace{l.Position, l.Currency, l.Account} }

func (p JournalPlace) compare(o JournalPlace) int {
	return cmp.Or(cmp.Compare(p.Position, o.Position), cmp.Compare(p.Currency, o.Currency), cmp.Compare(p.Account, o.Account))
}

// JournalPage is a page of the journal, oldest first.
type JournalPage struct {
	Lines []JournalLine
	More  bool // others follow
}

// Journal answers the page of postings that the query asks for, merged from
// the accounts that match.
func (e *Engine) Journal(ctx context.Context, q JournalQuery) (JournalPage, error) {
	if err := e.fresh(ctx); err != nil {
		return JournalPage{}, err
	}
	lo, hi, err := e.span(ctx, q)
	if err != nil {
		return JournalPage{}, err
	}
	rows, last := e.accounts(q.Project, func(r *accountRow) bool {
		return (q.Account == "" || r.Account == q.Account) && (q.Currency == "" || r.Currency == q.Currency) && r.Position >= lo
	})
	want := pageLimit(q.Limit) + 1
	hi = min(hi, last)
	var lines []JournalLine
	for _, r := range rows {
		found, err := e.linesOf(ctx, r, lo, hi, want, q.After)
		if err != nil {
			return JournalPage{}, err
		}
		// What is beyond a full page of the accounts so far need not be read
		// from the others.
		if lines = append(lines, found...); len(lines) > want {
			lines = firstLines(lines, want)
			hi = min(hi, lines[want-1].Position)
		}
	}
	lines = firstLines(lines, want)
	if len(lines) == want {
		return JournalPage{Lines: lines[:want-1], More: true}, nil
	}
	return JournalPage{Lines: lines}, nil
}

// span is the positions, both inclusive, that a query is about.
func (e *Engine) span(ctx context.Context, q JournalQuery) (lo, hi eventstore.Position, err error) {
	lo, hi = max(q.After.Position, 1), 1<<63-1
	if q.From > 0 {
		before, err := e.positionAt(ctx, q.From-1)
		if err != nil {
			return 0, 0, err
		}
		lo = max(lo, before+1)
	}
	if q.To > 0 {
		if hi, err = e.positionAt(ctx, q.To-1); err != nil {
			return 0, 0, err
		}
	}
	return lo, hi, nil
}

func (e *Engine) linesOf(
	ctx context.Context, r *accountRow, lo, hi eventstore.Position, n int, after JournalPlace,
) ([]JournalLine, error) {
	if lo > hi {
		return nil, nil
	}
	// The line at the cursor's own position may have been shown.
	found, err := gather(ctx, e, &e.journal.table, keyRange{r.line(lo), r.line(hi + 1)}, false, n+1)
	if err != nil {
		return nil, err
	}
	lines := make([]JournalLine, 0, len(found))
	for _, f := range found {
		v := f.value
		l := JournalLine{
			Position: positionOf(f.key), At: domain.IDTime(v.event), Project: r.Project, Event: v.event, Type: v.typ, Payment: v.payment,
			Refund: v.refund, Account: r.Account, Currency: r.Currency, Amount: v.amount, Balance: v.balance,
		}
		if l.Place().compare(after) > 0 {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

func firstLines(lines []JournalLine, n int) []JournalLine {
	slices.SortFunc(lines, func(a, b JournalLine) int { return a.Place().compare(b.Place()) })
	return lines[:min(n, len(lines))]
}
