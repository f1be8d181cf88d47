package merchant

import (
	"context"
	"net/url"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/books"
)

// ListPayouts answers GET /v1/payouts.
func (h Handlers) ListPayouts(x *edge.Exchange) error {
	return replyList(x, h.api.Payouts, h.api.PayoutsTable)
}

// payoutList reads a request for payouts. Each is the only posting of its event to the bank.
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
	found, err := a.cfg.Views.Journal(ctx, q)
	if err != nil {
		return page, err
	}
	rows := make([]wire.Payout, len(found.Lines))
	for i, line := range found.Lines {
		rows[i] = PayoutOf(line)
	}
	return edge.PageOf(l, rows, PlaceAfter(found)), nil
}

// PayoutOf is a posting to the bank as it is answered.
func PayoutOf(l books.JournalLine) wire.Payout {
	return wire.Payout{ID: l.Event, Amount: l.Payout.Amount, Currency: l.Payout.Currency, Reference: l.Payout.Reference, CreatedAt: l.At}
}

// PayoutsTable is the list of Payouts as CSV.
func (a *API) PayoutsTable(_ context.Context, c Caller, values url.Values) (edge.Table, error) {
	l, q, err := a.payoutList(&c, values)
	if err != nil {
		return edge.Table{}, err
	}
	zone := c.Calendar().Zone()
	return a.table(c, l, []string{"id", "amount", "currency", "reference", "created_at"}, func(ctx context.Context, limit int) (rows [][]string, more bool, err error) {
		q.Limit = limit
		found, err := a.cfg.Views.Journal(ctx, q)
		for _, line := range found.Lines {
			q.After = line.Place()
			p := PayoutOf(line)
			rows = append(rows, []string{p.ID.String(), p.Amount.String(), string(p.Currency), p.Reference, p.CreatedAt.In(zone)})
		}
		return rows, found.More, err
	}), nil
}
