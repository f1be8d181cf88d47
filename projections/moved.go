package projections

import (
	"context"
	"slices"

	"payledger/domain"
	"payledger/eventstore"
)

// moves are the payments that have changed since the views of payments were
// told last. Most payments change twice within moments of their creation, and
// are told of once. Engine.mu guards them.
type moves map[domain.ID]*move

type move struct {
	before *paymentRow // as the views know it, nil if they do not
	after  *paymentRow
}

// movesAtOnce is how many payments the views are told of in one go, unless
// somebody reads before: readers wait that long, some 0.5 ms.
const movesAtOnce = 256

func (m moves) add(before, after *paymentRow) {
	id := after.Payment.ID
	one := m[id]
	if one == nil {
		one = &move{before: before}
		m[id] = one
	}
	one.after = after
}

// settle tells the views of payments what has become of them. mu is held.
func (e *Engine) settle() {
	if len(e.moved) == 0 {
		return
	}
	all := e.settling[:0]
	for _, m := range e.moved {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *move) int { return a.after.Payment.ID.Compare(b.after.Payment.ID) })
	for _, v := range e.ofPayments {
		for _, m := range all {
			v.move(m.before, m.after)
		}
	}
	clear(all)
	clear(e.moved)
	e.settling = all
}

// settled lets the views of payments stand for all that was folded so far.
func (e *Engine) settled() {
	e.mu.RLock()
	n := len(e.moved)
	e.mu.RUnlock()
	if n > 0 {
		e.mu.Lock()
		e.settle()
		e.mu.Unlock()
	}
}

// payment finds a payment. What it answers must not be modified.
func (e *Engine) payment(ctx context.Context, id domain.ID) (*paymentRow, bool, error) {
	stood := e.payments.lately.stands(idKey(id))
	last, err := e.store.LastOf(ctx, eventstore.Filter{ID: id.String()})
	if err != nil {
		return nil, false, err
	}
	return e.paymentSince(id, stood, last)
}

// paymentSince finds a payment that had no event after the position when stood
// was what stood at its place among those used lately: so stood is asked for
// first, lest an older row be kept there.
func (e *Engine) paymentSince(id domain.ID, stood *entry[*paymentRow], last eventstore.Position) (*paymentRow, bool, error) {
	key := idKey(id)
	if stood != nil && stood.key == key {
		return stood.value, true, nil
	}
	if uint64(last) > e.written.Load() {
		e.mu.RLock()
		m := e.moved[id]
		e.mu.RUnlock()
		if m != nil {
			return m.after, true, nil
		}
	}
	return lookupSince(e, &e.payments.table, key, stood, last)
}
