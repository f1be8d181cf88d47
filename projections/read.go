package projections

import (
	"context"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/table"
)

// The other reads are methods of the views and the books.

// TimeOf is the time of the event at a position, 0 for position 0.
func (e *Engine) TimeOf(ctx context.Context, p eventstore.Position) (domain.Instant, error) {
	if p == 0 {
		return 0, nil
	}
	r, err := e.recordAt(ctx, p)
	return domain.InstantOf(r.At), err
}

// EventAt is the event at a position.
func (e *Engine) EventAt(ctx context.Context, p eventstore.Position) (eventstore.Stored, domain.Event, error) {
	r, err := e.recordAt(ctx, p)
	if err != nil {
		return r, nil, err
	}
	event, err := e.codec.Event(r)
	return r, event, err
}

func (e *Engine) recordAt(ctx context.Context, p eventstore.Position) (eventstore.Stored, error) {
	for r, err := range e.store.Scan(ctx, p-1, eventstore.Filter{}) {
		return r, err
	}
	return eventstore.Stored{}, &eventstore.CorruptError{Position: p, Reason: "missing"}
}

// Overlooked makes sure that a payment which Payment did not find is none of the
// project's in the log either. If it is, the views' file is damaged: the error
// is a *DamagedError, and the next Open rebuilds it.
func (e *Engine) Overlooked(ctx context.Context, project string, id domain.ID) error {
	for r, err := range e.store.Load(ctx, eventstore.PaymentStream(project, id)) {
		if err == nil {
			err = e.Wait(ctx, r.Position)
		}
		if err != nil {
			return err
		}
		if _, found, err := e.Payment(ctx, id); found || err != nil {
			return err // it was created meanwhile
		}
		return e.readFailed(table.Damage("payment %s, at position %d of the log, is not in it", id, r.Position))
	}
	return nil
}
