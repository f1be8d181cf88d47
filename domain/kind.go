package domain

// Kind is what a notification is about: a change that merchants are told of.
type Kind string

// The kinds of notifications.
const (
	KindPaymentCreated         Kind = "payment.created"
	KindPaymentAwaitingPayment Kind = "payment.awaiting_payment"
	KindPaymentPaid            Kind = "payment.paid"
	KindPaymentExpired         Kind = "payment.expired"
	KindPaymentFailed          Kind = "payment.failed"
	KindRefundPending          Kind = "refund.pending"
	KindRefundSucceeded        Kind = "refund.succeeded"
	KindRefundFailed           Kind = "refund.failed"
	KindEndpointTest           Kind = "endpoint.test" // sent on request, to one endpoint, whatever it subscribed to
)

// Kinds lists every kind an endpoint can subscribe to.
func Kinds() []Kind {
	return []Kind{
		KindPaymentCreated, KindPaymentAwaitingPayment, KindPaymentPaid, KindPaymentExpired, KindPaymentFailed,
		KindRefundPending, KindRefundSucceeded, KindRefundFailed,
	}
}

// FinalKinds lists the kinds that tell an outcome; an endpoint that names no
// kinds gets these.
func FinalKinds() []Kind {
	return []Kind{KindPaymentPaid, KindPaymentExpired, KindPaymentFailed, KindRefundSucceeded, KindRefundFailed}
}

// Final reports whether the kind tells an outcome. What is not final may be
// left out once something later is known.
func (k Kind) Final() bool {
	switch k {
	case KindPaymentCreated, KindPaymentAwaitingPayment, KindRefundPending:
		return false
	default:
		return true
	}
}

// KindOf answers which notification an event, by its wire name, leads to; ok
// is false for events that merchants are not told of.
func KindOf(eventType string) (k Kind, ok bool) {
	switch eventType {
	case TypePaymentRouteAssigned:
		return KindPaymentAwaitingPayment, true
	case TypeRefundCreated:
		return KindRefundPending, true
	case TypePaymentCreated, TypePaymentPaid, TypePaymentExpired, TypePaymentFailed, TypeRefundSucceeded, TypeRefundFailed:
		return Kind(eventType), true
	default:
		return "", false
	}
}
