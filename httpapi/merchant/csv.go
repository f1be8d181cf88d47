package merchant

import (
	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/projections/books"
	"payledger/projections/views"
)

func (a *API) paymentsCSV(x *edge.Exchange, req edge.ListRequest, q views.PaymentQuery) error {
	columns := []string{"id", "status", "amount", "currency", "description", "payload", "created_at"}
	return x.ReplyCSV(req, columns, func() error { return a.recheck(x) }, func(limit int) (rows [][]string, more bool, err error) {
		q.Limit = limit
		found, err := a.cfg.Views.Payments(x.Context(), x.Project.ID, q)
		for _, p := range found.Payments {
			q.Before = p.ID
			description := ""
			if p.Description != nil {
				description = *p.Description
			}
			rows = append(rows, []string{
				p.ID.String(), string(p.Status), p.Amount.String(), string(p.Currency), description, string(p.Payload), p.CreatedAt.String(),
			})
		}
		return rows, found.More, err
	})
}

func (a *API) refundsCSV(x *edge.Exchange, req edge.ListRequest, q views.RefundQuery, known bool) error {
	columns := []string{"id", "payment_id", "status", "amount", "currency", "created_at"}
	return x.ReplyCSV(req, columns, func() error { return a.recheck(x) }, func(limit int) (rows [][]string, more bool, err error) {
		if !known {
			return nil, false, nil
		}
		q.Limit = limit
		found, err := a.cfg.Views.Refunds(x.Context(), x.Project.ID, q)
		for _, r := range found.Refunds {
			q.Before = r.Refund.ID
			o := r.Refund.Object(r.Payment)
			rows = append(rows, []string{
				o.ID.String(), o.PaymentID.String(), string(o.Status), o.Amount.String(), string(o.Currency), o.CreatedAt.String(),
			})
		}
		return rows, found.More, err
	})
}

// statementCSV has columns for debits and credits, as no cell may begin with
// a minus sign.
func (a *API) statementCSV(x *edge.Exchange, req edge.ListRequest, q books.JournalQuery) error {
	columns := []string{
		"position", "time", "event_id", "event_type", "payment_id", "refund_id", "account", "currency",
		"debit", "credit", "balance", "balance_side",
	}
	return x.ReplyCSV(req, columns, func() error { return a.recheck(x) }, func(limit int) (rows [][]string, more bool, err error) {
		q.Limit = limit
		found, err := a.cfg.Views.Journal(x.Context(), q)
		for _, l := range found.Lines {
			q.After = l.Place()
			refund := ""
			if !l.Refund.IsZero() {
				refund = l.Refund.String()
			}
			debit, credit := l.Amount.String(), ""
			if l.Amount.Sign() < 0 {
				debit, credit = "", l.Amount.Neg().String()
			}
			balance, side := sided(l.Balance)
			rows = append(rows, []string{
				PositionText(l.Position), l.At.String(), l.Event.String(), l.Type, l.Payment.String(), refund, string(l.Account),
				string(l.Currency), debit, credit, balance, side,
			})
		}
		return rows, found.More, err
	})
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
