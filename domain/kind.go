package domain

// Kind is the type of a notification to merchants.
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
	KindRefundReturned         Kind = "refund.returned"
	KindPaymentDisputed        Kind = "payment.disputed"
	KindPaymentDisputeWon      Kind = "payment.dispute_won"
	KindPaymentDisputeLost     Kind = "payment.dispute_lost"
	KindEndpointTest           Kind = "endpoint.test"
)

// KindType is one row of the table of kinds.
type KindType struct {
	Kind  Kind
	Event string // wire name of the event; "": no event leads to it
	Final bool   // it reports an outcome; others may be skipped once a later event is recorded
	When  string // when it is sent, for the documentation page
}

// KindTypes is the table of kinds: those that an endpoint can subscribe to, then
// endpoint.test, which is sent on request only.
func KindTypes() []KindType {
	all := kindTypes()
	return all[:]
}

// kindTypes is an array, which needs no allocation: KindOf is called for each event.
func kindTypes() [13]KindType {
	return [...]KindType{
		{KindPaymentCreated, TypePaymentCreated, false, "the payment was created and every way to pay it is paused; or the customer can pay, for an endpoint that does not take payment.awaiting_payment"},
		{KindPaymentAwaitingPayment, TypePaymentRouteAssigned, false, "the customer can pay, mostly from the payment's creation on"},
		{KindPaymentPaid, TypePaymentPaid, true, "the payment is paid"},
		{KindPaymentExpired, TypePaymentExpired, true, "its time ran out"},
		{KindPaymentFailed, TypePaymentFailed, true, "an error occurred during payment"},
		{KindPaymentDisputed, TypePaymentDisputed, true, "the customer disputes the payment, and the provider holds its money; the payment stays paid and cannot be refunded; once more when its reason or the time to answer becomes known"},
		{KindPaymentDisputeWon, TypePaymentDisputeWon, true, "a dispute was decided for you, maybe one that was lost before: the money is yours again"},
		{KindPaymentDisputeLost, TypePaymentDisputeLost, true, "a dispute was decided for the customer, who keeps the money"},
		{KindRefundPending, TypeRefundCreated, false, "a refund was created"},
		{KindRefundSucceeded, TypeRefundSucceeded, true, "the money was returned"},
		{KindRefundFailed, TypeRefundFailed, true, "the refund did not succeed; another one can be made"},
		{KindRefundReturned, TypeRefundReturned, true, "the money of a refund that had succeeded came back to you; the refund stays succeeded, and another one can be made"},
		{KindEndpointTest, "", true, "you ask for it, see below; it has no sequence and no position"},
	}
}

// Kinds lists every kind an endpoint can subscribe to.
func Kinds() []Kind {
	return kindsThat(func(t KindType) bool { return t.Event != "" })
}

// FinalKinds lists the kinds that report an outcome. They are the default of an
// endpoint.
func FinalKinds() []Kind {
	return kindsThat(func(t KindType) bool { return t.Event != "" && t.Final })
}

func kindsThat(match func(KindType) bool) []Kind {
	var all []Kind
	for _, t := range kindTypes() {
		if match(t) {
			all = append(all, t.Kind)
		}
	}
	return all
}

// Final reports whether the kind reports an outcome. A notification that is not
// final may be skipped once a later event is recorded.
func (k Kind) Final() bool {
	all := kindTypes()
	t, known := Find(all[:], func(t KindType) bool { return t.Kind == k })
	return t.Final || !known
}

// KindOf returns the kind of notification for an event. ok is false for events
// without a notification.
func KindOf(e Event) (k Kind, ok bool) {
	if created, is := e.(PaymentCreated); is && created.Route != "" {
		return KindPaymentAwaitingPayment, true
	}
	return KindOfType(e.Type())
}

// KindOfType is KindOf for an event of which only the wire name is known; a
// payment.created is taken for one without a route.
func KindOfType(eventType string) (k Kind, ok bool) {
	all := kindTypes()
	t, ok := Find(all[:], func(t KindType) bool { return t.Event == eventType && eventType != "" })
	return t.Kind, ok
}
