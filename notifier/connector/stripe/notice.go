package stripe

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stripe/stripe-go/v85/webhook"

	"payledger/domain"
	"payledger/notifier/connector"
)

// event is what is read of a notification. These members have been the same in
// all versions of the API: that of an account's events is the operator's choice,
// and need not be the library's.
type event struct {
	Object string `json:"object"`
	Type   string `json:"type"`
	Data   struct {
		Object jsontext.Value `json:"object"`
	} `json:"data"`
}

type object struct {
	ID       string            `json:"id"`
	Metadata map[string]string `json:"metadata"`
	Intent   jsontext.Value    `json:"payment_intent"` // its id, or the whole of it
}

// Notices verifies a notification with stripe-go: each secret in force is tried,
// and the signature may be at most five minutes old.
func (c *account) Notices(ctx context.Context, header http.Header, body []byte) ([]connector.Notice, error) {
	if err := c.verify(header.Get("Stripe-Signature"), body); err != nil {
		return nil, err
	}
	var e event
	if err := json.Unmarshal(body, &e); err != nil || e.Object == "" || e.Type == "" {
		return nil, malformed("the notification is no event of Stripe's")
	}
	session, refunds := strings.HasPrefix(e.Type, "checkout.session."), strings.HasPrefix(e.Type, "refund.") || strings.HasPrefix(e.Type, "charge.refund")
	dispute := strings.HasPrefix(e.Type, "charge.dispute.")
	if e.Object != "event" || !session && !refunds && !dispute {
		return nil, nil
	}
	var o object
	if err := json.Unmarshal(e.Data.Object, &o); err != nil {
		return nil, malformed("the event's object cannot be read")
	}
	if dispute { // its metadata are its own
		var err error
		if o.Metadata, err = c.metadata(ctx, o.Intent); err != nil {
			return nil, err
		}
	}
	payment, ours := domain.ParseID(o.Metadata[metaPayment])
	switch {
	case !ours: // another program's, or a refund by hand: its charge comes too, and names the payment
		return nil, nil
	case session && !isSession(o.ID):
		return nil, malformed("the event's object is no Checkout Session")
	case session:
		return []connector.Notice{{Payment: payment, Reference: o.ID}}, nil
	}
	return []connector.Notice{{Payment: payment, Refunds: refunds, Disputes: dispute}}, nil
}

// metadata are those of a PaymentIntent, none if there is no such.
func (c *account) metadata(ctx context.Context, intent jsontext.Value) (map[string]string, error) {
	var id string
	if _ = json.Unmarshal(intent, &id); id == "" {
		return nil, nil
	}
	noted, answer := noting(ctx)
	found, err := c.client.V1PaymentIntents.Retrieve(noted, id, nil)
	switch err := answer.failure("retrieving a PaymentIntent", err); {
	case errors.Is(err, connector.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return found.Metadata, nil
}

func (c *account) verify(signature string, body []byte) error {
	for _, secret := range c.secrets {
		if webhook.ValidatePayload(body, signature, secret) == nil {
			return nil
		}
	}
	return connector.ErrForged
}

func malformed(detail string) error {
	return &connector.RefusedError{Reason: "malformed_notification", Detail: detail}
}
