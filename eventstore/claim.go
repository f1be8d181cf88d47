package eventstore

import "payledger/domain"

// ClaimOf is the claim of a record with the event, stored in the version; nil for
// none. So the claim of a record is known from its body alone.
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
