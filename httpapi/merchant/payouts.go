package merchant

import (
	"context"
	"net/url"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/books"
)

// ListPayouts answers GET /v1/payouts.
func (h Handlers) ListPayouts(x *edge.Exchange) error {
	return replyList(x, h.api.Payouts, h.api.PayoutsTable)
}

// payoutList reads a request for payouts. Each is the only posting of its event to the bank, as is what
// undoes one.
func (a *API) payoutList(c *Caller, values url.Values) (l edge.List, q books.JournalQuery, err error) {
	if err := a.Admit(c, projects.Read, nil); err != nil {
		return l, q, err
	}
	if l, err = edge.ParseList(values, "listPayouts", c.Project.ID, "currency", "from", "to"); err != nil {
		return l, q, err
	}
	q, err = JournalQuery(l)
	q.Project, q.Account, q.Newest = c.Project.ID, domain.Bank, true
	return l, q, err
}

// Payouts lists what was paid out to the merchant, newest first. Needs read.
func (a *API) Payouts(ctx context.Context, c Caller, values url.Values) (page wire.Page[wire.Payout], err error) {
	l, q, err := a.payoutList(&c, values)
	if err != nil {
		return page, err
	}
	rows, found, err := a.payouts(ctx, c, q)
	return edge.PageOf(l, rows, PlaceAfter(found)), err
}

// payouts are those of a page of postings to the bank. What undoes a payout is not one.
func (a *API) payouts(ctx context.Context, c Caller, q books.JournalQuery) ([]wire.Payout, books.JournalPage, error) {
	found, err := a.cfg.Views.Journal(ctx, q)
	if err != nil {
		return nil, found, err
	}
	undone, err := eventstore.UndonePayouts(ctx, a.cfg.Ledger, eventstore.PaidStream(c.Project.ID))
	rows := []wire.Payout{}
	for _, line := range found.Lines {
		if !line.Undoes {
			rows = append(rows, PayoutOf(line, undone))
		}
	}
	return rows, found, err
}

// PayoutOf is a posting of a payout to the bank as it is answered.
func PayoutOf(l books.JournalLine, undone map[domain.ID]eventstore.UndonePayout) wire.Payout {
	p := wire.Payout{ID: l.Event, Amount: l.Payout.Amount, Currency: l.Payout.Currency, Reference: l.Payout.Reference, CreatedAt: l.At}
	if u, ok := undone[l.Event]; ok {
		p.Undone = &wire.PayoutUndone{At: u.At, Reason: u.Reason}
	}
	return p
}

// PayoutsTable is the list of Payouts as CSV.
func (a *API) PayoutsTable(_ context.Context, c Caller, values url.Values) (edge.Table, error) {
	l, q, err := a.payoutList(&c, values)
	if err != nil {
		return edge.Table{}, err
	}
	zone := c.Calendar().Zone()
	columns := []string{"id", "amount", "currency", "reference", "created_at", "undone_at", "undone_reason"}
	return a.table(c, l, columns, func(ctx context.Context, limit int) (rows [][]string, more bool, err error) {
		q.Limit = limit
		all, found, err := a.payouts(ctx, c, q)
		for _, p := range all {
			row := []string{p.ID.String(), p.Amount.String(), string(p.Currency), p.Reference, p.CreatedAt.In(zone), "", ""}
			if p.Undone != nil {
				row[5], row[6] = p.Undone.At.In(zone), p.Undone.Reason
			}
			rows = append(rows, row)
		}
		if n := len(found.Lines); n > 0 {
			q.After = found.Lines[n-1].Place()
		}
		return rows, found.More, err
	}), nil
}
