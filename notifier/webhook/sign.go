package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"payledger/notifier/connector/client"
)

// The headers of a notification besides Content-Type, User-Agent and those that Sign makes, in the
// spelling of http.Header.
const (
	HeaderAttempt = "Webhook-Attempt"

	// HeaderTraceparent is that of the event, where it has one: W3C Trace Context.
	HeaderTraceparent = "Traceparent"
)

// Sign returns the three Standard Webhooks headers of one attempt: id,
// timestamp and signature. While secrets overlap there are several, the newest
// first, and as many signatures; a receiver needs to know one.
func Sign(id string, at time.Time, body []byte, secrets ...string) (http.Header, error) {
	if len(secrets) == 0 {
		return nil, errors.New("signing a notification: there is no secret")
	}
	keys, err := client.NewKeys(secrets...)
	if err != nil {
		return nil, fmt.Errorf("signing a notification: %w", err)
	}
	return keys.Sign(id, at, body)
}
