package webhook

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// Notification is the notification of one event to a merchant. A test of an endpoint is no event
// of the log: it has neither sequence nor position.
type Notification struct {
	EventID  domain.ID      `json:"id"` // the Webhook-Id; endpoint.test gets a new one
	Kind     domain.Kind    `json:"type"`
	At       domain.Instant `json:"timestamp"`         // when it happened
	Sequence uint64         `json:"sequence,omitzero"` // within the payment, its refunds included
	Position uint64         `json:"position,omitzero"` // in the log
	Data     any            `json:"data"`              // the payment or refund as of this event, never with instructions; or Tested
}

// Tested is the data of endpoint.test.
type Tested struct {
	EndpointID string `json:"endpoint_id"`
}

// Body renders a notification. It depends only on its argument, as bodies are not stored, and a
// payment's payload comes out byte for byte as the merchant sent it.
func Body(n Notification) ([]byte, error) {
	body, err := json.Marshal(n, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, fmt.Errorf("rendering event %s: %w", n.EventID, err)
	}
	return body, nil
}
