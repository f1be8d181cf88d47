package stripetest

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	api "github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"

	"payledger/notifier/connector/connectortest"
)

// send makes a notification.
func (s *Stripe) send(kind string, about object) {
	s.sent = append(s.sent, s.Signed(event(kind, about)))
}

func event(kind string, about object) []byte {
	body, err := json.Marshal(object{
		"id": id("evt_"), "object": "event", "api_version": api.APIVersion, "created": time.Now().Unix(), "livemode": false,
		"type": kind, "pending_webhooks": 1, "data": object{"object": about},
	}, json.Deterministic(true))
	if err != nil {
		panic(err) // objects are made of strings and numbers
	}
	return body
}

// Sent takes the notifications that were sent.
func (s *Stripe) Sent() []connectortest.Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

// Signed signs any body with the secret, now.
func (s *Stripe) Signed(body []byte) connectortest.Notification {
	return SignedAt(body, s.Secret, time.Now())
}

// SignedAt signs a body with a secret, at a time.
func SignedAt(body []byte, secret string, at time.Time) connectortest.Notification {
	return connectortest.Notification{
		Header: http.Header{
			"Content-Type":     {"application/json; charset=utf-8"},
			"Stripe-Signature": {fmt.Sprintf("t=%d,v1=%x", at.Unix(), webhook.ComputeSignature(at, body, secret))},
		},
		Body: body,
	}
}

// Forged says that a session was paid, signed with another secret.
func (s *Stripe) Forged(reference string) connectortest.Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	about := object{"id": reference, "object": "checkout.session", "payment_status": "paid", "status": "complete"}
	if o, ok := s.sessions[reference]; ok {
		about["metadata"] = metadata(o.form, "metadata")
	}
	return SignedAt(event("checkout.session.completed", about), "whsec_forged", time.Now())
}

// Foreign are events that concern no session of the connector's.
func (s *Stripe) Foreign() []connectortest.Notification {
	return []connectortest.Notification{
		s.Signed(event("customer.created", object{"id": "cus_1", "object": "customer", "email": "customer@example.com"})),
		s.Signed(event("payment_intent.succeeded", object{"id": "pi_1", "object": "payment_intent", "metadata": object{"order": "1"}})),
		s.Signed(event("checkout.session.completed", object{"id": "cs_test_1", "object": "checkout.session", "mode": "subscription", "metadata": object{"order": "1"}})),
		s.Signed(event("checkout.session.expired", object{"id": "cs_test_2", "object": "checkout.session", "metadata": nil})),
		s.Signed(event("refund.created", object{"id": "re_1", "object": "refund", "payment_intent": "pi_1", "metadata": object{}})),
		s.Signed(event("charge.dispute.created", object{"id": "du_1", "object": "dispute", "payment_intent": "pi_1", "metadata": object{}})),
		s.Signed(event("charge.dispute.created", object{"id": "du_2", "object": "dispute", "payment_intent": nil, "metadata": object{"payledger_payment": "1"}})),
		s.Signed(event("charge.refunded", object{"id": "ch_1", "object": "charge", "payment_intent": "pi_1", "metadata": object{"payledger_payment": "1"}})),
		s.Signed([]byte(`{"id":"evt_2","object":"v2.core.event","type":"v1.billing.meter.error_report_triggered","related_object":{"id":"m_1"}}`)),
	}
}
