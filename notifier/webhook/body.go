package webhook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// Notification is the notification of one event to a merchant. Exactly one of Payment, Refund and
// Endpoint is set, the one that Kind is about.
type Notification struct {
	EventID  domain.ID // the Webhook-Id; endpoint.test gets a new one
	Kind     domain.Kind
	At       domain.Instant // when it happened
	Sequence uint64         // within the payment, its refunds included; 0 for endpoint.test
	Position uint64         // in the log; 0 for endpoint.test

	Payment  *domain.PaymentObject // as of this event
	Refund   *domain.RefundObject  // as of this event
	Endpoint string                // endpoint.test: the id of the endpoint
}

// envelope is the form of a notification. A test of an endpoint is no event of the
// log: it has neither sequence nor position.
type envelope struct {
	ID        domain.ID      `json:"id"`
	Type      domain.Kind    `json:"type"`
	Timestamp domain.Instant `json:"timestamp"`
	Sequence  uint64         `json:"sequence,omitzero"`
	Position  uint64         `json:"position,omitzero"`
	Data      any            `json:"data"`
}

// tested is the data of endpoint.test.
type tested struct {
	EndpointID string `json:"endpoint_id"`
}

// Body renders a notification. It depends only on its argument, as bodies are not stored, and a
// payment's payload comes out byte for byte as the merchant sent it. The data of payment.* and
// refund.* is the object as of the event, never with instructions; that of endpoint.test is
// {"endpoint_id":"we_…"}, and such a body has no sequence and no position.
func Body(n Notification) ([]byte, error) {
	data, err := n.data()
	if err != nil {
		return nil, fmt.Errorf("rendering event %s: %w", n.EventID, err)
	}
	body, err := json.Marshal(envelope{
		ID: n.EventID, Type: n.Kind, Timestamp: n.At, Sequence: n.Sequence, Position: n.Position, Data: data,
	}, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, fmt.Errorf("rendering event %s: %w", n.EventID, err)
	}
	return body, nil
}

// data returns the object that the kind is about. A kind that names one of the
// object's statuses has to name the one that the object has: else the notification
// would contradict itself.
func (n Notification) data() (any, error) {
	numbered := n.Sequence > 0 && n.Position > 0
	switch {
	case n.Payment != nil && n.Refund == nil && n.Endpoint == "" && numbered &&
		agrees(n.Kind, "payment", n.Payment.Status, domain.PaymentStatuses()):
		object := *n.Payment
		object.Instructions = nil
		return object, nil
	case n.Refund != nil && n.Payment == nil && n.Endpoint == "" && numbered &&
		agrees(n.Kind, "refund", n.Refund.Status, domain.RefundStatuses()):
		return *n.Refund, nil
	case n.Endpoint != "" && n.Payment == nil && n.Refund == nil && n.Sequence == 0 && n.Position == 0 &&
		n.Kind == domain.KindEndpointTest:
		return tested{n.Endpoint}, nil
	default:
		return nil, fmt.Errorf("its kind %q does not fit its content", n.Kind)
	}
}

// agrees reports whether a kind is about an object and does not name another
// status than the object has. payment.created says that there is a payment: it may
// have its route already.
func agrees[S ~string](k domain.Kind, object string, has S, statuses []S) bool {
	of, name, _ := strings.Cut(string(k), ".")
	if k == domain.KindPaymentCreated && has == S(domain.AwaitingPayment) {
		return true
	}
	return of == object && slices.Contains(domain.Kinds(), k) && (S(name) == has || !slices.Contains(statuses, S(name)))
}
