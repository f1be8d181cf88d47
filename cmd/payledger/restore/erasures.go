package restore

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"payledger/domain"
	"payledger/eventstore"
)

// findErasures finds the payments whose details were erased by events that are not restored, as far
// as the sources behind Options.Until, the directory's log and EVENTS tell. That log may be another
// one, or a shorter copy of it than the one that EVENTS was made from. A restored copy must not bring
// the details back.
func (r *restoring) findErasures(ctx context.Context) error {
	r.erased = make(map[string]struct{})
	if r.Until > 0 {
		m := begin(ctx, r.parts)
		defer m.stop()
		for m.err == nil && m.position() != 0 {
			for _, p := range m.take() {
				if p.bad == nil && p.Position > r.Until {
					r.noteErasure(p.Stored)
				}
			}
		}
		if m.err != nil {
			return m.err
		}
	}
	// Without Force nothing of that log gets lost, no erasure either.
	if r.old != nil && r.Force && r.old.LogID() == r.Log {
		for s, err := range r.old.Scan(ctx, 0, eventstore.Filter{Kind: eventstore.KindPayment}) {
			if err == nil {
				r.noteErasure(s)
			}
		}
	}
	if r.File == Events || slices.Contains(r.Then, Events) || r.Bus.URL == "" && !isJetStream(r.Data.NATS()) {
		return ctx.Err()
	}
	if err := r.eraseAsEvents(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintf(r.Stderr, "payledger: EVENTS cannot tell which details were erased later: %v\n", err)
	}
	return ctx.Err()
}

// eraseAsEvents notes the erasures in EVENTS, which is no source of the restored log.
func (r *restoring) eraseAsEvents(ctx context.Context) error {
	sources := r.parts
	defer func() { r.parts = sources }()
	if err := r.addEvents(ctx); err != nil {
		return err
	}
	events := r.parts[len(sources)]
	if events.log != r.Log {
		return nil
	}
	for p, err := range events.records(ctx) {
		if err != nil {
			return err
		}
		if p.bad == nil {
			r.noteErasure(p.Stored)
		}
	}
	return nil
}

func (r *restoring) noteErasure(s eventstore.Stored) {
	if typ, err := eventstore.TypeOf(s.Body); err == nil && typ == domain.TypePaymentDetailsErased {
		r.erased[s.Stream.ID] = struct{}{}
	}
}

// isErased reports whether the payment's details were erased by an event that is not restored.
func (r *restoring) isErased(s eventstore.Stream) bool {
	_, erased := r.erased[s.ID]
	return erased && s.Kind == eventstore.KindPayment
}

// withoutErased leaves out the details of erased payments and counts them.
func (r *restoring) withoutErased(records iter.Seq2[eventstore.Stored, error]) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		for s, err := range records {
			if s.Details != nil && r.isErased(s.Stream) {
				s.Details = nil
				r.Erased++
			}
			if !yield(s, err) {
				return
			}
		}
	}
}
