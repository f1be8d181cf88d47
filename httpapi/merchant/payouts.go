package merchant

import (
	"context"
	"net/url"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/books"
)

// ListPayouts answers GET /v1/payouts.
func (h Handlers) ListPayouts(x *edge.Exchange) error {
	return replyList(x, h.api.Payouts, whole[wire.Payout])
}

// Payouts lists what was paid out to the merchant, newest first. Each is the only posting of its event to
// the bank, as is what undoes one, which is no payout. Needs read.
func (a *API) Payouts(c Caller, values url.Values) (Rows[wire.Payout], error) {
	all, err := list[wire.Payout](a, &c, values, "listPayouts", "currency", "from", "to")
	if err != nil {
		return all, err
	}
	q, err := JournalQuery(all.List)
	q.Project, q.Account, q.Newest = c.Project.ID, domain.Bank, true
	all.next = func(ctx context.Context, limit int) (part []wire.Payout, last string, err error) {
		q.Limit = limit
		found, err := a.cfg.Views.Journal(ctx, q)
		if err != nil {
			return nil, "", err
		}
		undone, err := eventstore.UndonePayouts(ctx, a.cfg.Ledger, eventstore.PaidStream(c.Project.ID))
		part = []wire.Payout{}
		for _, line := range found.Lines {
			q.After = line.Place()
			if !line.Undoes {
				part = append(part, PayoutOf(line, undone))
			}
		}
		return part, PlaceAfter(found), err
	}
	zone := c.Calendar().Zone()
	all.columns = []string{"id", "amount", "currency", "reference", "created_at", "undone_at", "undone_reason"}
	all.cells = eachRow(func(p wire.Payout) []string {
		row := []string{p.ID.String(), p.Amount.String(), string(p.Currency), p.Reference, p.CreatedAt.In(zone), "", ""}
		if p.Undone != nil {
			row[5], row[6] = p.Undone.At.In(zone), p.Undone.Reason
		}
		return row
	})
	return all, err
}

// PayoutOf is a posting of a payout to the bank as it is answered.
func PayoutOf(l books.JournalLine, undone map[domain.ID]eventstore.UndonePayout) wire.Payout {
	p := wire.Payout{ID: l.Event, Amount: l.Payout.Amount, Currency: l.Payout.Currency, Reference: l.Payout.Reference, CreatedAt: l.At}
	if u, ok := undone[l.Event]; ok {
		p.Undone = &wire.PayoutUndone{At: u.At, Reason: u.Reason}
	}
	return p
}
