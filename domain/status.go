package domain

// PaymentStatus is the status of a payment; it only moves forward (seed 3.1).
type PaymentStatus string

// The payment statuses. Paid, Expired and Failed are final.
const (
	Created         PaymentStatus = "created"
	AwaitingPayment PaymentStatus = "awaiting_payment"
	Paid            PaymentStatus = "paid"
	Expired         PaymentStatus = "expired"
	Failed          PaymentStatus = "failed"
)

// PaymentStatuses lists every status in the order of a payment's life.
func PaymentStatuses() []PaymentStatus {
	return []PaymentStatus{Created, AwaitingPayment, Paid, Expired, Failed}
}

// CanBecome is the forward-only rule: it reports whether a payment may move from
// status s to next. The zero status, of a payment that does not exist yet, becomes
// Created, or AwaitingPayment if the payment is created with its route. Decide checks it before it returns an event, and Evolve
// before it applies one, so no record can move a status backward.
func (s PaymentStatus) CanBecome(next PaymentStatus) bool {
	switch s {
	case "":
		return next == Created || next == AwaitingPayment
	case Created:
		return next == AwaitingPayment || next == Expired || next == Failed
	case AwaitingPayment:
		return next == Paid || next == Expired || next == Failed
	default:
		return false
	}
}

// Final reports whether no other status can follow s.
func (s PaymentStatus) Final() bool { return s == Paid || s == Expired || s == Failed }

// RefundStatus is the status of a refund; it only moves forward (seed 3.2).
type RefundStatus string

// The refund statuses. RefundSucceeded and RefundFailed are final.
const (
	RefundPending   RefundStatus = "pending"
	RefundSucceeded RefundStatus = "succeeded"
	RefundFailed    RefundStatus = "failed"
)

// RefundByHand is no status of a refund. It is what Payment.RefundStatus says of money
// that the provider returned by another hand.
const RefundByHand RefundStatus = ReasonRefundedAtProvider

// RefundCameBack is no status of a refund either: one that has succeeded and whose money
// came back stays succeeded. Payment.RefundStatus says it of the last refund.
const RefundCameBack RefundStatus = "returned"

// RefundStatuses lists every refund status.
func RefundStatuses() []RefundStatus {
	return []RefundStatus{RefundPending, RefundSucceeded, RefundFailed}
}

// PaymentRefundStatuses lists what Payment.RefundStatus can say, apart from "".
func PaymentRefundStatuses() []RefundStatus {
	return append(RefundStatuses(), RefundByHand, RefundCameBack)
}

// CanBecome is the forward-only rule of refunds.
func (s RefundStatus) CanBecome(next RefundStatus) bool {
	switch s {
	case "":
		return next == RefundPending
	case RefundPending:
		return next == RefundSucceeded || next == RefundFailed
	default:
		return false
	}
}

// Final reports whether no other status can follow s.
func (s RefundStatus) Final() bool { return s == RefundSucceeded || s == RefundFailed }
