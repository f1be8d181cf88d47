package eventstore

import "payledger/domain"

// ClaimOf is the claim of the record that holds the event, stored in a version,
// nil for none. Who has a record's body has all of the record but its place.
func ClaimOf(e domain.Event, version int) *Claim {
	var in *domain.Idempotency
	switch e := e.(type) {
	case domain.PaymentCreated:
		in = e.Idempotency
	case domain.RefundCreated:
		in = e.Idempotency
	default:
		return referenceOf(e, version)
	}
	if in == nil {
		return nil
	}
	return &Claim{Key: in.Key, Fingerprint: in.Fingerprint}
}

// referencesClaimed is the version of events from which on they claim the
// reference whose money they book.
const referencesClaimed = 2

func referenceOf(e domain.Event, version int) *Claim {
	key, ok := domain.UsedReference(e)
	if !ok || version < referencesClaimed {
		return nil
	}
	return &Claim{Key: key, Forever: true}
}
