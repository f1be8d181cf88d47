package domain

// PaymentStatus is a payment's place in its one-way life (seed 3.1).
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

// CanBecome is the forward-only rule: whether a payment in status s may move
// to next. The zero status, that of a payment which does not exist yet, can
// only become Created. Decide asks it before it answers an event and Evolve
// before it follows one, so no record can move a status backward either.
func (s PaymentStatus) CanBecome(next PaymentStatus) bool {
	switch s {
	case "":
		return next == Created
	case Created:
		return next == AwaitingPayment || next == Expired || next == Failed
	case AwaitingPayment:
		return next == Paid || next == Expired || next == Failed
	default:
		return false
	}
}

// Final reports whether s is never left.
func (s PaymentStatus) Final() bool { return s == Paid || s == Expired || s == Failed }

func (s PaymentStatus) advance(next PaymentStatus) PaymentStatus {
	if s.CanBecome(next) {
		return next
	}
	return s
}

// RefundStatus is a refund's place in its life (seed 3.2).
type RefundStatus string

// The refund statuses. RefundSucceeded and RefundFailed are final.
const (
	RefundPending   RefundStatus = "pending"
	RefundSucceeded RefundStatus = "succeeded"
	RefundFailed    RefundStatus = "failed"
)

// RefundStatuses lists every refund status.
func RefundStatuses() []RefundStatus {
	return []RefundStatus{RefundPending, RefundSucceeded, RefundFailed}
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

// Final reports whether s is never left.
func (s RefundStatus) Final() bool { return s == RefundSucceeded || s == RefundFailed }

func (s RefundStatus) advance(next RefundStatus) RefundStatus {
	if s.CanBecome(next) {
		return next
	}
	return s
}
