package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"payledger/domain/projects"
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
	if len(secrets) < 1 || len(secrets) > 1+projects.MaxOldSecrets {
		return nil, fmt.Errorf("signing a notification: want one secret, and up to %d more during rotations; got %d", projects.MaxOldSecrets, len(secrets))
	}
	// A dot would let the end of the id pass for the beginning of the time.
	if id == "" || strings.ContainsFunc(id, notInID) {
		return nil, errors.New("signing a notification: an id consists of letters, digits, '_' and '-'")
	}
	keys, err := client.NewKeys(secrets...)
	if err != nil {
		return nil, fmt.Errorf("signing a notification: %w", err)
	}
	return keys.Sign(id, at, body)
}

func notInID(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}
