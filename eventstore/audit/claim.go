package audit

import (
	"errors"

	"payledger/domain"
	"payledger/eventstore"
)

// references maps each provider reference whose money is booked to the position
// of the event that booked it. A reference is the first 128 bits of its SHA-256;
// a collision takes about 2^64 hashes.
type references map[[16]byte]eventstore.Position

func (s references) at(key domain.Digest) eventstore.Position { return s[[16]byte(key[:])] }

func (s references) add(key domain.Digest, at eventstore.Position) { s[[16]byte(key[:])] = at }

// checkClaim checks that the record has the claim of its event, and that the key
// was not claimed before.
func (c *checker) checkClaim(i *item) {
	r, in := &i.record, i.claim
	if !c.options.Bare {
		if wrong, ok := errors.AsType[*eventstore.WrongClaimError](eventstore.CheckClaim(*r, in)); ok {
			c.add(r, BadClaim, "%s", wrong.Reason)
		}
	}
	switch {
	case in == nil:
		c.checkRefusal(i)
	case in.Forever:
		if was := c.references.at(in.Key); was != 0 {
			c.add(r, BadClaim, "its reference was used at position %d", was)
			return
		}
		c.references.add(in.Key, r.Position)
	default:
		if was := c.claims.add(r, in.Key); was != 0 {
			c.add(r, BadClaim, "its idempotency key was claimed at position %d, less than 30 days before", was)
		}
	}
}

// checkRefusal checks that a signal refused for a used reference has a reference
// that was used before.
func (c *checker) checkRefusal(i *item) {
	f := domain.FactsOf(i.event)
	if f.Result != domain.SignalRefused || f.Reason != domain.ReasonReferenceUsed || c.unseen() {
		return
	}
	if c.references.at(f.Signal.ReferenceKey()) == 0 {
		c.add(&i.record, ImpossibleEvent, "its reference was not used before")
	}
}
