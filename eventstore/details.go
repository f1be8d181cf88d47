package eventstore

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// Details of a record are the part of its event that can be erased: what a payment is for. They are
// SaltSize random bytes and then one line of JSON:
//
//	{"description":…,"payload":…}
//
// The record's event commits to them: domain.PaymentCreated.Details is the SHA-256 of these bytes.
// The salt keeps it from being guessed what they were once they are erased. A record's hash, and with
// it all proofs, is over its body alone.
const (
	SaltSize   = 32
	MaxDetails = 4 << 10 // more bytes than details have
)

type details struct {
	Description *string        `json:"description"`
	Payload     jsontext.Value `json:"payload"`
}

// detach is the event with a commitment to its description and payload, which are the details. An
// event that has neither, or commits to some already, has none.
func (c *Codec) detach(e domain.PaymentCreated) (_ domain.PaymentCreated, detached []byte, err error) {
	if e.Details != nil || !e.HasDetails() {
		return e, nil, nil
	}
	line, err := json.Marshal(details{e.Description, jsontext.Value(e.Payload)}, c.write)
	if err != nil {
		return e, nil, fmt.Errorf("encoding a payment's details: %w", err)
	}
	detached = make([]byte, SaltSize, SaltSize+len(line))
	_, _ = rand.Read(detached) // never fails
	detached = append(detached, line...)
	e.Details = new(Commitment(detached))
	return e, detached, nil
}

// Erases reports whether the record of the event erases the details of its stream.
func Erases(e domain.Event) bool {
	_, erases := e.(domain.PaymentDetailsErased)
	return erases
}

// Commitment is what an event says of its details.
func Commitment(details []byte) domain.Digest { return sha256.Sum256(details) }

// attach puts a record's details into its event. Without them the event has null and {}: they were
// erased, or are not where the record comes from.
func (c *Codec) attach(e domain.Event, r Stored) (domain.Event, error) {
	created, ok := e.(domain.PaymentCreated)
	switch {
	case !ok || created.Details == nil:
		if r.Details != nil {
			return nil, fmt.Errorf("it has details, and its event %s commits to none", e.Type())
		}
		return e, nil
	case created.HasDetails():
		return nil, fmt.Errorf("event %s has a description or payload and a commitment to others", e.Type())
	case r.Details == nil:
		return e, nil
	case len(r.Details) < SaltSize || Commitment(r.Details) != *created.Details:
		return nil, fmt.Errorf("the payment's details are not those that the event commits to")
	}
	var d details
	if err := json.Unmarshal(r.Details[SaltSize:], &d, c.read); err != nil {
		return nil, fmt.Errorf("the payment's details: %w", err)
	}
	created.Description, created.Payload = d.Description, bytes.Clone(d.Payload)
	return created, nil
}
