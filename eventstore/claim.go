package eventstore

import "payledger/domain"

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
