package merchant

import (
	"context"
	"net/url"

	"payledger/domain"
	"payledger/httpapi/edge"
)

// table is a list as CSV: all of it, or as much as the request names.
func (a *API) table(c Caller, l edge.List, columns []string, next func(ctx context.Context, limit int) ([][]string, bool, error)) edge.Table {
	t := edge.Table{Columns: columns, Next: next, Recheck: func(ctx context.Context) error { return a.recheck(ctx, c) }}
	if l.Sized {
		t.Limit = l.Limit
	}
	return t
}

// PaymentsTable is the list of Payments as CSV.
func (a *API) PaymentsTable(_ context.Context, c Caller, values url.Values) (edge.Table, error) {
	l, q, err := a.paymentList(&c, values)
	if err != nil {
		return edge.Table{}, err
	}
	columns := []string{"id", "status", "amount", "currency", "description", "payload", "created_at", "refund_status", "dispute_status"}
	zone := c.Calendar().Zone()
	return a.table(c, l, columns, func(ctx context.Context, limit int) (rows [][]string, more bool, err error) {
		q.Limit = limit
		found, err := a.cfg.Views.Payments(ctx, c.Project.ID, q)
		for _, p := range found.Payments {
			q.Before = p.ID
			description := ""
			if p.Description != nil {
				description = *p.Description
			}
			rows = append(rows, []string{
				p.ID.String(), string(p.Status), p.Amount.String(), string(p.Currency), description, string(p.Payload), p.CreatedAt.In(zone), string(p.RefundStatus()),
				string(p.DisputeStatus()),
			})
		}
		return rows, found.More, err
	}), nil
}

// RefundsTable is the list of Refunds as CSV.
func (a *API) RefundsTable(_ context.Context, c Caller, values url.Values) (edge.Table, error) {
	l, q, known, err := a.refundList(&c, values)
	if err != nil {
		return edge.Table{}, err
	}
	columns := []string{"id", "payment_id", "status", "amount", "currency", "created_at", "returned"}
	zone := c.Calendar().Zone()
	return a.table(c, l, columns, func(ctx context.Context, limit int) (rows [][]string, more bool, err error) {
		if !known {
			return nil, false, nil
		}
		q.Limit = limit
		found, err := a.cfg.Views.Refunds(ctx, c.Project.ID, q)
		for _, r := range found.Refunds {
			q.Before = r.Refund.ID
			o, returned := r.Refund.Object(r.Payment), ""
			if r.Refund.Returned {
				returned = "true"
			}
			rows = append(rows, []string{
				o.ID.String(), o.PaymentID.String(), string(o.Status), o.Amount.String(), string(o.Currency), o.CreatedAt.In(zone), returned,
			})
		}
		return rows, found.More, err
	}), nil
}

// StatementTable is the list of Statement as CSV. It has columns for debits
// and credits, as no cell may begin with a minus sign.
func (a *API) StatementTable(_ context.Context, c Caller, values url.Values) (edge.Table, error) {
	l, q, err := a.postingList(&c, values)
	if err != nil {
		return edge.Table{}, err
	}
	columns := []string{
		"position", "time", "event_id", "event_type", "payment_id", "refund_id", "account", "currency",
		"debit", "credit", "balance", "balance_side", "description",
	}
	zone := c.Calendar().Zone()
	return a.table(c, l, columns, func(ctx context.Context, limit int) (rows [][]string, more bool, err error) {
		q.Limit = limit
		found, err := a.cfg.Views.Journal(ctx, q)
		if err != nil {
			return nil, false, err
		}
		descriptions, err := a.descriptions(ctx, c, func(yield func(domain.ID) bool) {
			for _, l := range found.Lines {
				if !yield(l.Payment) {
					return
				}
			}
		})
		for _, l := range found.Lines {
			q.After = l.Place()
			payment, refund := "", ""
			if !l.Payment.IsZero() {
				payment = l.Payment.String()
			}
			if !l.Refund.IsZero() {
				refund = l.Refund.String()
			}
			debit, credit := l.Amount.String(), ""
			if l.Amount.Sign() < 0 {
				debit, credit = "", l.Amount.Neg().String()
			}
			balance, side := sided(l.Balance)
			rows = append(rows, []string{
				PositionText(l.Position), l.At.In(zone), l.Event.String(), l.Type, payment, refund, string(l.Account),
				string(l.Currency), debit, credit, balance, side, descriptions[l.Payment],
			})
		}
		return rows, found.More, err
	}), nil
}

// sided is the size of a balance and its side, "" for none.
func sided(s domain.Sum) (size, side string) {
	switch s.Sign() {
	case 1:
		return s.String(), "debit"
	case -1:
		return s.Neg().String(), "credit"
	}
	return s.String(), ""
}
