package eventstore

import (
	"fmt"

	"payledger/domain"
)

// ClaimOf is the claim of a record with this event, stored in this version; nil if
// it has none. So the body of a record alone says what it claims.
func ClaimOf(e domain.Event, version int) *Claim {
	switch f := domain.FactsOf(e); {
	case f.Idempotency != nil:
		return &Claim{Key: f.Idempotency.Key, Fingerprint: f.Idempotency.Fingerprint}
	case f.ReferenceSince > 0 && version >= f.ReferenceSince:
		return &Claim{Key: f.Signal.ReferenceKey(), Forever: true}
	}
	return nil
}

// WrongClaimError: a record's claim is not the one of its event. A claim is in the record's header,
// which the log's tree does not cover: if it was removed, its key can be used again.
type WrongClaimError struct {
	Position Position
	Reason   string
}

func (e *WrongClaimError) Error() string {
	return fmt.Sprintf("the event at position %d: %s", e.Position, e.Reason)
}

// CheckClaim checks that the record's claim is the one of its event. The error is a
// *WrongClaimError.
func CheckClaim(r Stored, ofEvent *Claim) error {
	switch {
	case (ofEvent == nil) != (r.Claim == nil):
		return &WrongClaimError{r.Position, "only one of record and event makes a claim"}
	case ofEvent != nil && *ofEvent != *r.Claim:
		return &WrongClaimError{r.Position, "record and event make different claims"}
	}
	return nil
}

// CheckClaim decodes the record and checks its claim. The error is a *CorruptError or a
// *WrongClaimError.
func (c *Codec) CheckClaim(r Stored) error {
	e, version, err := c.DecodeVersion(r)
	if err != nil {
		return err
	}
	return CheckClaim(r, ClaimOf(e, version))
}
