package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payledger/domain/projects"
)

// The headers of a notification besides Content-Type and User-Agent, in the spelling of
// http.Header.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
	HeaderAttempt   = "Webhook-Attempt"

	// HeaderTraceparent is that of the event, where it has one: W3C Trace Context.
	HeaderTraceparent = "Traceparent"
)

// minSecret is the shortest key, in base64, that Standard Webhooks allows: 24
// bytes.
const minSecret = len(secretPrefix) + 32

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
	signatures := make([]string, 0, len(secrets))
	for _, secret := range secrets {
		if !strings.HasPrefix(secret, secretPrefix) || len(secret) < minSecret {
			return nil, errors.New(`signing a notification: a secret is "whsec_" and at least 24 bytes in base64`)
		}
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			return nil, errors.New("signing a notification: what follows whsec_ in the secret is not base64")
		}
		signature, err := signer.Sign(id, at, body)
		if err != nil {
			return nil, fmt.Errorf("signing a notification: %w", err)
		}
		signatures = append(signatures, signature)
	}
	return http.Header{
		HeaderID:        {id},
		HeaderTimestamp: {strconv.FormatInt(at.Unix(), 10)},
		HeaderSignature: {strings.Join(signatures, " ")},
	}, nil
}

func notInID(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}
