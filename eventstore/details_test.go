package eventstore

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"payledger/domain"
)

func paymentFor(description string) domain.PaymentCreated {
	return domain.PaymentCreated{Amount: 1, Currency: "RUB", Description: &description, Payload: domain.EmptyObject()}
}

// keptApart is the record of a payment's creation.
func keptApart(t *testing.T, e domain.PaymentCreated) (domain.PaymentCreated, Stored) {
	t.Helper()
	c := NewCodec()
	e, details, err := c.detach(e)
	if err != nil {
		t.Fatal(err)
	}
	r := sampled(e, nil)
	r.Details = details
	if r.Body, err = c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, e); err != nil {
		t.Fatal(err)
	}
	return e, r
}

func TestDetailsAreThoseThatTheEventCommitsTo(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	_, mine := keptApart(t, paymentFor("order-1"))
	_, other := keptApart(t, paymentFor("order-2"))
	plain := paymentFor("order-1")
	_, bare := keptApart(t, domain.PaymentCreated{Amount: 1, Currency: "RUB", Payload: domain.EmptyObject()})
	for what, change := range map[string]func(*Stored){
		"another payment's":  func(r *Stored) { r.Details = other.Details },
		"one altered byte":   func(r *Stored) { r.Details[len(r.Details)-4] ^= 1 },
		"another salt":       func(r *Stored) { r.Details[3] ^= 1 },
		"a cut end":          func(r *Stored) { r.Details = r.Details[:len(r.Details)-1] },
		"nothing but a salt": func(r *Stored) { r.Details = r.Details[:SaltSize-1] },
		"of a payment without": func(r *Stored) {
			r.Body, r.Details = bare.Body, mine.Details
		},
		"in the event too": func(r *Stored) {
			r.Body = bytes.Replace(r.Body, []byte(`"description":null`), []byte(`"description":"`+*plain.Description+`"`), 1)
		},
	} {
		r := mine
		r.Details = bytes.Clone(mine.Details)
		change(&r)
		e, err := c.Decode(r)
		corrupt, ok := errors.AsType[*CorruptError](err)
		if !ok || corrupt.Position != r.Position || e != nil {
			t.Errorf("details that are %s: %v, %v", what, e, err)
		}
	}
}

func TestErasedDetailsAreNull(t *testing.T) {
	t.Parallel()
	for payload, has := range map[string]bool{`{}`: false, `{"a":1}`: true} {
		for _, description := range []*string{nil, new(""), new("order-1")} {
			e, r := keptApart(t, domain.PaymentCreated{Amount: 1, Currency: "RUB", Description: description, Payload: domain.JSON(payload)})
			if want := has || description != nil; (r.Details != nil) != want || (e.Details != nil) != want || e.Erased() {
				t.Errorf("description %v, payload %s: details %q", description, payload, r.Details)
			}
			r.Details = nil
			got, err := NewCodec().Decode(r)
			created, ok := got.(domain.PaymentCreated)
			if err != nil || !ok || created.HasDetails() || string(created.Payload) != "{}" || created.Erased() != (e.Details != nil) {
				t.Errorf("description %v, payload %s, erased: %+v, %v", description, payload, got, err)
			}
		}
	}
}

// Equal details of two payments have nothing in common in the log.
func TestDetailsAreSalted(t *testing.T) {
	t.Parallel()
	one, r := keptApart(t, paymentFor("order-1"))
	two, s := keptApart(t, paymentFor("order-1"))
	if *one.Details == *two.Details || bytes.Equal(r.Details[:SaltSize], s.Details[:SaltSize]) {
		t.Error("two payments for the same have the same commitment")
	}
	if strings.Contains(string(r.Body), "order-1") {
		t.Errorf("the body says it: %s", r.Body)
	}
}
