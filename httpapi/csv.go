package httpapi

import (
	"net/http"

	"payledger/domain"
	"payledger/projections"
)

const csvType = "text/csv"

// asCSV reports whether a list was asked for as CSV.
func (x *exchange) asCSV() bool {
	x.Header().Add("Vary", "Accept")
	return accepts(x.r.Header, csvType)
}

// replyCSV answers a list as CSV: all its rows, or one page when the request
// named a limit. next answers the next page's rows; each has its own time, so
// that a long list ends with its last row.
func (a *api) replyCSV(x *exchange, req listRequest, columns []string, next func(limit int) (rows [][]string, more bool, err error)) error {
	limit := projections.MaxLimit
	if req.sized {
		limit = req.limit
	}
	rows, more, err := next(limit)
	if err != nil {
		return err
	}
	out := x.stream(csvType + "; charset=utf-8; header=present")
	body, err := AppendCSV(nil, columns...)
	for err == nil {
		for _, row := range rows {
			if body, err = AppendCSV(body, row...); err != nil {
				return err
			}
		}
		if _, err := out.Write(body); err != nil {
			return err
		}
		if !more || req.sized || x.r.Method == http.MethodHead {
			return out.flush()
		}
		body = body[:0]
		x.within.renew(maxTime)
		if err = a.recheck(x); err == nil {
			rows, more, err = next(limit)
		}
	}
	return err
}

func (a *api) paymentsCSV(x *exchange, req listRequest, q projections.PaymentQuery) error {
	columns := []string{"id", "status", "amount", "currency", "description", "payload", "created_at"}
	return a.replyCSV(x, req, columns, func(limit int) (rows [][]string, more bool, err error) {
		q.Limit = limit
		found, err := a.cfg.Views.Payments(x.ctx(), x.caller.project.ID, q)
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

func (a *api) refundsCSV(x *exchange, req listRequest, q projections.RefundQuery, known bool) error {
	columns := []string{"id", "payment_id", "status", "amount", "currency", "created_at"}
	return a.replyCSV(x, req, columns, func(limit int) (rows [][]string, more bool, err error) {
		if !known {
			return nil, false, nil
		}
		q.Limit = limit
		found, err := a.cfg.Views.Refunds(x.ctx(), x.caller.project.ID, q)
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
func (a *api) statementCSV(x *exchange, req listRequest, q projections.JournalQuery) error {
	columns := []string{
		"position", "time", "event_id", "event_type", "payment_id", "refund_id", "account", "currency",
		"debit", "credit", "balance", "balance_side",
	}
	return a.replyCSV(x, req, columns, func(limit int) (rows [][]string, more bool, err error) {
		q.Limit = limit
		found, err := a.cfg.Views.Journal(x.ctx(), q)
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
				positionText(l.Position), l.At.String(), l.Event.String(), l.Type, l.Payment.String(), refund, string(l.Account),
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
