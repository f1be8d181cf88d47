package adapter

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The headers of Standard Webhooks, in the spelling of http.Header.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// Tolerance is how far the clocks of payledger and an adapter may be apart.
const Tolerance = 5 * time.Minute

const (
	secretPrefix = "whsec_"
	minKey       = 24 // bytes, as Standard Webhooks has it
)

// Keys sign and verify calls, answers and notifications. Immutable and safe for
// concurrent use.
type Keys []*standardwebhooks.Webhook

// NewKeys makes the keys of secrets, each of them "whsec_" and at least 24 bytes
// in base64. The first is the newest.
func NewKeys(secrets ...string) (Keys, error) {
	var keys Keys
	for _, secret := range secrets {
		coded, ok := strings.CutPrefix(secret, secretPrefix)
		if !ok || len(coded) < (minKey+2)/3*4 {
			return nil, errors.New(`want "whsec_" and at least 24 bytes in base64`)
		}
		key, err := standardwebhooks.NewWebhook(coded)
		if err != nil {
			return nil, errors.New("what follows whsec_ is not base64")
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Sign returns the headers of a message, with a signature by each key.
func (k Keys) Sign(id string, at time.Time, body []byte) (http.Header, error) {
	signatures := make([]string, len(k))
	for i, key := range k {
		var err error
		if signatures[i], err = key.Sign(id, at, body); err != nil {
			return nil, fmt.Errorf("signing: %w", err)
		}
	}
	return http.Header{
		HeaderID:        {id},
		HeaderTimestamp: {strconv.FormatInt(at.Unix(), 10)},
		HeaderSignature: {strings.Join(signatures, " ")},
	}, nil
}

// Verify checks that one of the keys has signed the message within Tolerance of
// now.
func (k Keys) Verify(header http.Header, body []byte, now time.Time) error {
	at, err := strconv.ParseInt(header.Get(HeaderTimestamp), 10, 64)
	if err != nil {
		return errors.New("it is not signed")
	}
	if away := now.Sub(time.Unix(at, 0)).Abs(); away > Tolerance {
		return errors.New("its timestamp is more than five minutes away: an old message sent again, or one of the two clocks is wrong")
	}
	for _, key := range k {
		// The library's check of the time takes no clock.
		if key.VerifyIgnoringTimestamp(body, header) == nil {
			return nil
		}
	}
	return errors.New("no signature fits")
}
