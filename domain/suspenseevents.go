package domain

import (
	"errors"
	"fmt"
	"slices"
)

// PaymentRefundedAtProvider records a refund that was made at the provider by
// another hand. It changes no status: the operator clears it.
type PaymentRefundedAtProvider struct {
	Route           string   `json:"route"`
	Reference       string   `json:"reference"`        // of the attempt whose money it is
	RefundReference string   `json:"refund_reference"` // the provider's id of the refund
	Amount          Amount   `json:"amount"`
	Currency        Currency `json:"currency"`
	// LateFunds are the late funds of the reference where the payment, which has more
	// than MaxLateFunds, did not list them: from now on it does.
	LateFunds *LateFund `json:"late_funds,omitempty"`
}

func (PaymentRefundedAtProvider) Type() string { return TypePaymentRefundedAtProvider }

func (e PaymentRefundedAtProvider) evolvePayment(p Payment) Payment {
	p.ProviderRefunds = append(slices.Clip(p.ProviderRefunds), e.refund())
	if e.LateFunds != nil {
		p.Late = append(slices.Clip(p.Late), *e.LateFunds)
	}
	return p
}

func (e PaymentRefundedAtProvider) postings() []Posting {
	return entry(Suspense, AcquirerReceivable(e.Route), e.Amount, e.Currency)
}

func (PaymentRefundedAtProvider) facts() Facts { return Facts{} }

func (e PaymentRefundedAtProvider) origin(p Payment, r Recorded) (Payment, PaymentCommand, error) {
	if r.Version < 3 && slices.ContainsFunc(p.Signals, func(s Signal) bool {
		return s.Reference == e.Reference && s.Outcome == OutcomePaid && s.Route == p.Route
	}) {
		p.PaidReference = e.Reference // a refused signal counted as the money's
	}
	if e.Route != p.Route {
		return p, nil, fmt.Errorf("it is of the route %q, the payment is of %q", e.Route, p.Route)
	}
	return p, RecordProviderRefund{e.refund(), e.LateFunds}, nil
}

func (e PaymentRefundedAtProvider) refund() ProviderRefund {
	return ProviderRefund{Reference: e.Reference, RefundReference: e.RefundReference, Amount: e.Amount, Currency: e.Currency}
}

// PaymentSuspenseSettled records that the operator has booked money out of suspense. It
// changes no status.
type PaymentSuspenseSettled struct {
	Reference string   `json:"reference"`
	Debit     Account  `json:"debit"`
	Credit    Account  `json:"credit"`
	Amount    Amount   `json:"amount"`
	Currency  Currency `json:"currency"`
	Reason    string   `json:"reason"`
}

func (PaymentSuspenseSettled) Type() string { return TypePaymentSuspenseSettled }

func (e PaymentSuspenseSettled) evolvePayment(p Payment) Payment {
	if _, listed := p.LateFund(e.Reference); e.Debit == Suspense && !listed { // from now on it is; the log has its reason
		p.Late = append(slices.Clip(p.Late), LateFund{Reference: e.Reference, Amount: e.Amount, Currency: e.Currency})
	}
	p.Settlements = append(slices.Clip(p.Settlements), Settlement(e))
	return p
}

func (e PaymentSuspenseSettled) postings() []Posting {
	return entry(e.Debit, e.Credit, e.Amount, e.Currency)
}

func (PaymentSuspenseSettled) facts() Facts { return Facts{} }

func (e PaymentSuspenseSettled) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	against := e.Debit
	if e.Debit == Suspense {
		against = e.Credit
	}
	var err error
	if (e.Debit == Suspense) == (e.Credit == Suspense) {
		err = fmt.Errorf("it moves money from %s to %s", e.Credit, e.Debit)
	}
	earlier := &LateFund{Reference: e.Reference, Amount: e.Amount, Currency: e.Currency} // as in ReturnCreated
	return p, SettleSuspense{Reference: e.Reference, Currency: e.Currency, Against: against, Reason: e.Reason, Earlier: earlier}, err
}

// ReturnCreated records that the operator has asked for late funds to be
// returned.
type ReturnCreated struct {
	ReturnID  ID       `json:"return_id"`
	CreatedAt Instant  `json:"created_at"`
	Reference string   `json:"reference"`
	Amount    Amount   `json:"amount"`
	Currency  Currency `json:"currency"`
}

func (ReturnCreated) Type() string { return TypeReturnCreated }

func (e ReturnCreated) evolvePayment(p Payment) Payment {
	if _, ok := p.Return(e.ReturnID); !ok {
		p.Returns = append(slices.Clip(p.Returns), Return{
			Refund:    Refund{ID: e.ReturnID, Status: RefundPending, Amount: e.Amount, Currency: e.Currency, CreatedAt: e.CreatedAt},
			Reference: e.Reference,
		})
	}
	return p
}

func (e ReturnCreated) postings() []Posting {
	return entry(Suspense, RefundsInFlight, e.Amount, e.Currency)
}

func (e ReturnCreated) facts() Facts { return Facts{} }

func (e ReturnCreated) origin(p Payment, r Recorded) (Payment, PaymentCommand, error) {
	// Of late funds that the payment does not list, the amount cannot be checked here.
	earlier := &LateFund{Reference: e.Reference, Amount: e.Amount, Currency: e.Currency}
	return p, CreateReturn{At: e.CreatedAt, ReturnID: e.ReturnID, Reference: e.Reference, Earlier: earlier}, r.creates(e.ReturnID, e.CreatedAt)
}

// ReturnSucceeded records that late funds were returned.
type ReturnSucceeded struct {
	ReturnID ID     `json:"return_id"`
	Signal   Signal `json:"signal"`
}

func (ReturnSucceeded) Type() string { return TypeReturnSucceeded }

func (e ReturnSucceeded) evolvePayment(p Payment) Payment {
	return p.settleReturn(e.ReturnID, RefundSucceeded).remember(&e.Signal)
}

func (e ReturnSucceeded) postings() []Posting {
	return entry(RefundsInFlight, AcquirerReceivable(e.Signal.Route), e.Signal.Amount, e.Signal.Currency)
}

func (e ReturnSucceeded) facts() Facts {
	return Facts{Signal: &e.Signal, Result: SignalApplied, ReferenceSince: 2}
}

func (e ReturnSucceeded) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	return e.Signal.origin(p, true)
}

// ReturnFailed records that late funds could not be returned: they are late funds
// again.
type ReturnFailed struct {
	ReturnID ID     `json:"return_id"`
	Returned bool   `json:"returned,omitzero"` // the return had succeeded, and stays so: its money came back
	Reason   string `json:"reason,omitempty"`
	Signal   Signal `json:"signal"`
}

func (ReturnFailed) Type() string { return TypeReturnFailed }

func (e ReturnFailed) evolvePayment(p Payment) Payment {
	p = p.settleReturn(e.ReturnID, RefundFailed).remember(&e.Signal)
	for i, r := range p.Returns {
		p.Returns[i].Returned = r.Returned || e.Returned && r.ID == e.ReturnID && r.Status == RefundSucceeded
	}
	return p
}

func (e ReturnFailed) postings() []Posting {
	from := map[bool]Account{false: RefundsInFlight, true: AcquirerReceivable(e.Signal.Route)}[e.Returned]
	return entry(from, Suspense, e.Signal.Amount, e.Signal.Currency)
}

func (e ReturnFailed) facts() Facts {
	return Facts{Signal: &e.Signal, Result: SignalApplied, Reason: e.Reason}
}

func (e ReturnFailed) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	p, _, err := e.Signal.origin(p, true)
	return p, ApplySignal{Signal: e.Signal, Reason: e.Reason}, errors.Join(err, validReason(e.Reason))
}
