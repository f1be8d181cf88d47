package eventstore

import "payledger/domain"

// ClaimOf is the claim of the record that holds the event, nil for none. Who
// has a record's body has all of the record but its place.
func ClaimOf(e domain.Event) *Claim {
	var in *domain.Idempotency
	switch e := e.(type) {
	case domain.PaymentCreated:
		in = e.Idempotency
	case domain.RefundCreated:
		in = e.Idempotency
	}
	if in == nil {
		return nil
	}
	return &Claim{Key: in.Key, Fingerprint: in.Fingerprint}
}
