package domain

import "errors"

// PaymentDisputed records that the customer disputes the payment, and that the provider holds the
// money until that is decided. Opened, it records what was not known of an open dispute.
type PaymentDisputed struct {
	Opened        bool    `json:"opened,omitzero"`          // it was open before, and the money is held already
	Reason        string  `json:"reason,omitempty"`         // the provider's, as a code; "": it gave none
	EvidenceDueBy Instant `json:"evidence_due_by,omitzero"` // until when the merchant can answer; 0: unknown
	Signal        Signal  `json:"signal"`                   // its reference is the dispute's
}

func (PaymentDisputed) Type() string { return TypePaymentDisputed }

func (e PaymentDisputed) evolvePayment(p Payment) Payment {
	return p.withDispute(e.Signal, Dispute{Status: DisputeOpen, Reason: e.Reason, EvidenceDueBy: e.EvidenceDueBy})
}

func (e PaymentDisputed) postings() []Posting {
	if e.Opened {
		return nil
	}
	return entry(MerchantPayable, DisputesHeld, e.Signal.Amount, e.Signal.Currency)
}

func (e PaymentDisputed) facts() Facts {
	return Facts{Reason: e.Reason, Signal: &e.Signal, Result: SignalApplied}
}

func (e PaymentDisputed) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	p, _, err := e.Signal.origin(p, true)
	return p, ApplySignal{Signal: e.Signal, Reason: e.Reason, EvidenceDueBy: e.EvidenceDueBy}, errors.Join(err, validReason(e.Reason))
}

// PaymentDisputeWon records that a dispute was decided for the merchant, or that the provider has paid
// back the money of one that was lost.
type PaymentDisputeWon struct {
	Opened bool   `json:"opened"`        // false: nothing was heard of the dispute before, and nothing was held
	Lost   bool   `json:"lost,omitzero"` // it was lost before
	Signal Signal `json:"signal"`
}

func (PaymentDisputeWon) Type() string { return TypePaymentDisputeWon }

func (e PaymentDisputeWon) evolvePayment(p Payment) Payment {
	return p.withDispute(e.Signal, Dispute{Status: DisputeWon})
}

func (e PaymentDisputeWon) postings() []Posting {
	if !e.Opened {
		return nil
	}
	from := map[bool]Account{false: DisputesHeld, true: AcquirerReceivable(e.Signal.Route)}[e.Lost]
	return entry(from, MerchantPayable, e.Signal.Amount, e.Signal.Currency)
}

func (e PaymentDisputeWon) facts() Facts { return Facts{Signal: &e.Signal, Result: SignalApplied} }

func (e PaymentDisputeWon) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	return e.Signal.origin(p, true)
}

// PaymentDisputeLost records that a dispute was decided for the customer, who keeps the money.
type PaymentDisputeLost struct {
	Opened bool   `json:"opened"` // false: nothing was heard of the dispute before, and nothing was held
	Signal Signal `json:"signal"`
}

func (PaymentDisputeLost) Type() string { return TypePaymentDisputeLost }

func (e PaymentDisputeLost) evolvePayment(p Payment) Payment {
	return p.withDispute(e.Signal, Dispute{Status: DisputeLost})
}

func (e PaymentDisputeLost) postings() []Posting {
	from := MerchantPayable
	if e.Opened {
		from = DisputesHeld
	}
	return entry(from, AcquirerReceivable(e.Signal.Route), e.Signal.Amount, e.Signal.Currency)
}

func (e PaymentDisputeLost) facts() Facts { return Facts{Signal: &e.Signal, Result: SignalApplied} }

func (e PaymentDisputeLost) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	return e.Signal.origin(p, true)
}
