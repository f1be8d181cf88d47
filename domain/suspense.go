package domain

import (
	"fmt"
	"slices"
)

// LateFund is money that was recorded as late funds.
type LateFund struct {
	Reference string   `json:"reference"` // the provider's, of the attempt that collected it
	Reason    string   `json:"reason"`
	Amount    Amount   `json:"amount"`
	Currency  Currency `json:"currency"`
}

// ProviderRefund is money that the provider has returned without a refund or a
// return of ours, by another hand.
type ProviderRefund struct {
	Reference       string   `json:"reference"`        // of the attempt whose money it is
	RefundReference string   `json:"refund_reference"` // the provider's id of the refund
	Amount          Amount   `json:"amount"`
	Currency        Currency `json:"currency"`
}

// Return is the state of one return of late funds. Its statuses are those of a
// refund.
type Return struct {
	Refund

	Reference string `json:"reference"` // of the late funds
}

// MaxProviderRefunds is how many refunds by another hand are recorded of one
// payment.
const MaxProviderRefunds = 100

// The reasons why money cannot be returned, or a refund by another hand is not
// recorded, in an AttemptError.
const (
	ReturnNothing  = "no_late_funds"    // the payment has no late funds of the reference
	ReturnExists   = "return_exists"    // they are being returned or were
	ReturnElsehow  = "returned_by_hand" // the provider has returned them already, or a part
	ReturnSettled  = "settled"          // the operator has booked them out of suspense
	RefundTooMany  = "too_many_refunds" // the payment has MaxProviderRefunds
	RefundOfNobody = "no_money"         // no money of the reference was booked
)

// ReasonRefundedAtProvider is why a refund failed whose money the provider had
// returned before, by another hand.
const ReasonRefundedAtProvider = "refunded_at_provider"

// CreateReturn asks for late funds to be returned to whom they came from.
type CreateReturn struct {
	At        Instant
	ReturnID  ID
	Reference string // of the late funds
	// Earlier is the late funds of the reference where the payment does not list them,
	// because it has more than MaxLateFunds: the log has them. nil: none are found.
	Earlier *LateFund
}

// RecordProviderRefund records a refund that the provider has made by another
// hand, once for each RefundReference. One that is known as a refund or return of
// ours is not recorded.
type RecordProviderRefund struct {
	ProviderRefund

	Earlier *LateFund // as in CreateReturn
}

func (c CreateReturn) decidePayment(p Payment) (Event, error) {
	fund, ok := p.LateFund(c.Reference)
	if unlisted := p.unlisted(c.Reference, c.Earlier); unlisted != nil {
		fund, ok = *unlisted, true
	}
	_, settled := p.Settled(c.Reference)
	_, back := p.ReturnOf(c.Reference)
	_, known := p.Return(c.ReturnID)
	switch {
	case !ok:
		return nil, &AttemptError{Reason: ReturnNothing}
	case p.refundedByHand(c.Reference):
		return nil, &AttemptError{Reason: ReturnElsehow}
	case settled:
		return nil, &AttemptError{Reason: ReturnSettled}
	case back, known:
		return nil, &AttemptError{Reason: ReturnExists}
	}
	return ReturnCreated{ReturnID: c.ReturnID, CreatedAt: c.At, Reference: c.Reference, Amount: fund.Amount, Currency: fund.Currency}, nil
}

func (c RecordProviderRefund) decidePayment(p Payment) (Event, error) {
	_, late := p.LateFund(c.Reference)
	unlisted := p.unlisted(c.Reference, c.Earlier)
	booked := late || unlisted != nil || c.Reference != "" && c.Reference == p.PaidReference
	switch {
	case slices.ContainsFunc(p.ProviderRefunds, func(r ProviderRefund) bool { return r.RefundReference == c.RefundReference }),
		p.returnedAs(c.RefundReference):
		return nil, nil
	case !booked:
		return nil, &AttemptError{Reason: RefundOfNobody}
	case len(p.ProviderRefunds) >= MaxProviderRefunds:
		return nil, &AttemptError{Reason: RefundTooMany}
	case c.Amount < MinAmount || c.Amount > MaxAmount:
		return nil, FieldErrors{{Field: "amount", Code: InvalidValue}}
	case !c.Currency.wellFormed():
		return nil, FieldErrors{{Field: "currency", Code: InvalidValue}}
	}
	if err := validReference(c.RefundReference); err != nil {
		return nil, err
	}
	return PaymentRefundedAtProvider{
		Route: p.Route, Reference: c.Reference, RefundReference: c.RefundReference, Amount: c.Amount, Currency: c.Currency, LateFunds: unlisted,
	}, nil
}

// unlisted are late funds of the reference that the log has and the payment does
// not list; nil if found are none such.
func (p Payment) unlisted(reference string, found *LateFund) *LateFund {
	if _, listed := p.LateFund(reference); listed || found == nil || found.Reference != reference || p.LateFunds <= MaxLateFunds {
		return nil
	}
	return found
}

// returnedAs reports whether a refund or return with the provider's reference has succeeded.
func (p Payment) returnedAs(refundReference string) bool {
	return slices.ContainsFunc(p.Signals, func(s Signal) bool {
		if s.RefundID == nil || s.Reference != refundReference || s.Outcome != OutcomeSucceeded {
			return false
		}
		r, _ := p.RefundOrReturn(*s.RefundID)
		return r.Status == RefundSucceeded
	})
}

// LateFund finds late funds by the provider's reference.
func (p Payment) LateFund(reference string) (LateFund, bool) {
	return Find(p.Late, func(f LateFund) bool { return f.Reference == reference })
}

// ReturnOf finds the return that late funds have, by their reference. One that
// failed or came back does not count.
func (p Payment) ReturnOf(reference string) (Return, bool) {
	return Find(p.Returns, func(r Return) bool { return r.Reference == reference && r.Holds() })
}

func (p Payment) refundedByHand(reference string) bool {
	return slices.ContainsFunc(p.ProviderRefunds, func(r ProviderRefund) bool { return r.Reference == reference })
}

// Return finds one of the payment's returns of late funds.
func (p Payment) Return(id ID) (Return, bool) {
	return Find(p.Returns, func(r Return) bool { return r.ID == id })
}

// RefundsAndReturns are those of the payment, each with the reference of the money that goes back.
func (p Payment) RefundsAndReturns() []Return {
	var all []Return
	for _, r := range p.Refunds {
		all = append(all, Return{r, p.PaidReference})
	}
	return append(all, p.Returns...)
}

// RefundOrReturn finds one of RefundsAndReturns.
func (p Payment) RefundOrReturn(id ID) (Return, bool) {
	return Find(p.RefundsAndReturns(), func(r Return) bool { return r.ID == id })
}

func (p Payment) settleReturn(id ID, to RefundStatus) Payment {
	p.Returns = slices.Clone(p.Returns)
	for i, r := range p.Returns {
		if r.ID == id && r.Status.CanBecome(to) {
			p.Returns[i].Status = to
		}
	}
	return p
}

// validReason is an error unless a reason is absent or of the right form.
func validReason(reason string) error {
	if reason != "" && !ValidReason(reason) {
		return fmt.Errorf("the reason %q is not a code", reason)
	}
	return nil
}

// BookedReferences are the provider's references of all money that was booked for
// the payment.
func (p Payment) BookedReferences() []string {
	var all []string
	if p.PaidReference != "" {
		all = append(all, p.PaidReference)
	}
	for _, f := range p.Late {
		all = append(all, f.Reference)
	}
	return all
}
