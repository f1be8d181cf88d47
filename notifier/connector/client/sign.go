package client

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The headers of Standard Webhooks (https://www.standardwebhooks.com), in the spelling of http.Header.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	// SecretPrefix marks a secret of Standard Webhooks.
	SecretPrefix = "whsec_"

	minKey    = 24              // bytes, as Standard Webhooks has it
	tolerance = 5 * time.Minute // between the clocks of who signs and who verifies
)

// Keys sign and verify messages by the rules of Standard Webhooks. Immutable and safe for
// concurrent use.
type Keys []*standardwebhooks.Webhook

// NewKeys makes the keys of secrets, each of them "whsec_" and at least 24 bytes
// in base64. The first is the newest.
func NewKeys(secrets ...string) (Keys, error) {
	var keys Keys
	for _, secret := range secrets {
		coded, ok := strings.CutPrefix(secret, SecretPrefix)
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

// Verify checks that one of the keys has signed the message within five minutes of
// now.
func (k Keys) Verify(header http.Header, body []byte, now time.Time) error {
	at, err := strconv.ParseInt(header.Get(HeaderTimestamp), 10, 64)
	if err != nil {
		return errors.New("it is not signed")
	}
	if away := now.Sub(time.Unix(at, 0)).Abs(); away > tolerance {
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
