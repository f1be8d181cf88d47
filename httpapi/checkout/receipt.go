package checkout

import (
	"payledger/domain"
	"payledger/httpapi/ui"
)

// receipt is the customer's receipt of a paid payment. The shop finds the payment by the number,
// which gives access to nothing.
type receipt struct {
	Number domain.ID
	PaidAt domain.Instant // when the paying attempt began; 0: unknown
	Refund string         // state of the newest refund; empty: there is none
}

func receiptOf(l *ui.Locale, p domain.Payment) *receipt {
	r := &receipt{Number: p.ID}
	for _, s := range p.Signals {
		if s.RefundID == nil && s.Outcome == domain.OutcomePaid && s.Route == p.Route && s.Reference == p.PaidReference &&
			s.Amount == p.Amount && s.Currency == p.Currency {
			r.PaidAt = s.StartedAt
			break
		}
	}
	if n := len(p.Refunds); n > 0 {
		switch last := p.Refunds[n-1]; {
		case last.Status == domain.RefundPending:
			r.Refund = l.T("checkout.refund_pending")
		case last.Returned:
			r.Refund = l.T("checkout.refund_returned")
		case last.Status == domain.RefundSucceeded:
			r.Refund = l.T("checkout.refund_succeeded", "Amount", l.Amount(last.Amount, p.Currency))
		}
	}
	return r
}
