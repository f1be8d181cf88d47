package yookassa

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"payledger/notifier/connector"
)

// notification is what YooKassa sends, as far as it is believed: which payment
// it is about.
type notification struct {
	Type   string `json:"type"`
	Event  string `json:"event"`
	Object struct {
		ID        string         `json:"id"`
		PaymentID string         `json:"payment_id"` // of refunds
		Metadata  map[string]any `json:"metadata"`
	} `json:"object"`
}

// Notices names the payment that a notification is about. A refund's notification has only
// YooKassa's id of the payment, which may be another program's.
func (*shop) Notices(_ context.Context, _ http.Header, body []byte) ([]connector.Notice, error) {
	var n notification
	if err := json.Unmarshal(body, &n); err != nil {
		return nil, malformed("it is not JSON of the documented form")
	}
	if n.Type != "notification" || n.Event == "" {
		return nil, malformed("it has no type or no event")
	}
	payment := idIn(n.Object.Metadata, metaPayment)
	var notice connector.Notice
	switch about, _, _ := strings.Cut(n.Event, "."); about {
	case "payment":
		notice = connector.Notice{Payment: payment, Reference: n.Object.ID}
	case "refund":
		notice = connector.Notice{Reference: n.Object.PaymentID, Refunds: true}
	default:
		return nil, nil
	}
	if !validID(notice.Reference) {
		return nil, malformed("it names no payment")
	}
	if !notice.Refunds && payment.IsZero() {
		return nil, nil // what others collect through the same shop
	}
	return []connector.Notice{notice}, nil
}

func malformed(detail string) error {
	return &connector.RefusedError{Reason: "malformed_notification", Detail: detail}
}
