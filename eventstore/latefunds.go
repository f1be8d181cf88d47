package eventstore

import (
	"context"

	"payledger/domain"
)

// UnlistedLateFund finds late funds of the reference that a payment with more than
// domain.MaxLateFunds does not list: the log has them. nil: there are none.
func UnlistedLateFund(ctx context.Context, l Ledger, p domain.Payment, reference string) (*domain.LateFund, error) {
	if _, listed := p.LateFund(reference); listed || p.LateFunds <= domain.MaxLateFunds {
		return nil, nil
	}
	for r, err := range l.Codec.Events(l.Store.Load(ctx, PaymentStream(p.Project, p.ID))) {
		if err != nil {
			return nil, err
		}
		if late, ok := r.Event.(domain.PaymentLateFunds); ok && late.Signal.Reference == reference {
			return new(late.Fund()), nil
		}
	}
	return nil, nil
}
