package wire

import (
	"payledger/domain"
	"payledger/domain/settlement"
)

// PaymentRow is a payment in a list of its merchant's.
type PaymentRow struct {
	domain.PaymentObject
	Refund         domain.RefundStatus `json:"refund_status,omitempty"`   // as Payment.RefundStatus
	ReturnedByHand domain.Amount       `json:"returned_by_hand,omitzero"` // what the provider returned by another hand

	Dispute domain.DisputeStatus `json:"dispute_status,omitempty"` // as Payment.DisputeStatus
}

// RefundRow is a refund in a list of its merchant's.
type RefundRow struct {
	domain.RefundObject
	Returned bool `json:"returned,omitzero"` // it succeeded, and later its money came back
}

// RefundRowOf is the row of a payment's refund.
func RefundRowOf(r domain.Refund, payment domain.ID) RefundRow {
	return RefundRow{RefundObject: r.Object(payment), Returned: r.Returned}
}

// PaymentFacts is a payment with what is its merchant's to see and not part of
// the public object.
type PaymentFacts struct {
	Payment       domain.PaymentObject `json:"payment"`
	ExpiresAt     domain.Instant       `json:"expires_at"`
	Route         *string              `json:"route"`          // null while there is none
	FailureReason *string              `json:"failure_reason"` // null unless failed
	Link          string               `json:"link"`           // where the customer pays
	Refunds       []RefundRow          `json:"refunds"`        // oldest first

	// Refund is Payment.RefundStatus, ReturnedByHand what the provider returned by
	// another hand of the money that paid the payment.
	Refund         domain.RefundStatus `json:"refund_status"`
	ReturnedByHand domain.Amount       `json:"returned_by_hand,omitzero"`

	Disputes []domain.Dispute     `json:"disputes"` // in the order in which they were heard of
	Dispute  domain.DisputeStatus `json:"dispute_status,omitempty"`

	ErasedAt domain.Instant `json:"erased_at,omitzero"` // when its description and payload were erased

	SettledBy []settlement.Line `json:"settled_by"` // lines of providers' reports, in the order in which they settled it
}

// Place is where what an id names is shown; zero: nowhere.
type Place struct {
	Payment  *domain.ID
	Part     *domain.ID // of the payment: a refund or an event
	Endpoint string
	Key      string
}
