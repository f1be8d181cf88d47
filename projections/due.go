package projections

import (
	"context"
	"encoding/binary"

	"payledger/domain"
)

// dueView orders the payments that can still expire by when they are to:
// Payment.ExpiryDue as 8 bytes, id. The value is the project.
type dueView struct{ table[string] }

func newDueView() *dueView {
	return &dueView{newTable(
		"due",
		func(b []byte, project string) ([]byte, error) { return append(b, project...), nil },
		func(b []byte) (string, error) { return string(b), nil },
	)}
}

func (*dueView) version() int { return 1 }

func (v *dueView) move(before, after *paymentRow) {
	was, wasDue := dueKey(before)
	key, due := dueKey(after)
	if wasDue == due && was == key {
		return
	}
	if wasDue {
		v.remove(was)
	}
	if due {
		v.insert(key, after.Payment.Project)
	}
}

func dueKey(row *paymentRow) (string, bool) {
	if row == nil || !row.Payment.Status.CanBecome(domain.Expired) {
		return "", false
	}
	var key [8 + idSize]byte
	binary.BigEndian.PutUint64(key[:], uint64(max(row.Payment.ExpiryDue(), 0)))
	copy(key[8:], row.Payment.ID[:])
	return string(key[:]), true
}

// dueStart begins the keys of an instant.
func dueStart(at domain.Instant) string { return timeKey(at) }

// EachDue calls fn for up to limit payments whose expiry is due at the instant
// before or earlier (Payment.ExpiryDue), soonest first, until fn answers an
// error, which it returns. fn may issue commands.
func (e *Engine) EachDue(
	ctx context.Context, before domain.Instant, limit int, fn func(project string, payment domain.ID) error,
) error {
	if err := e.fresh(ctx); err != nil {
		return err
	}
	rest := keyRange{"", dueStart(before + 1)}
	for limit > 0 {
		found, next, err := window(ctx, e, &e.due.table, rest, false, min(limit, maxWindow))
		if err != nil {
			return err
		}
		for _, d := range found {
			if err := fn(d.value, idOf(d.key)); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		limit -= len(found)
		rest = *next
	}
	return nil
}

// NextDue is the earliest instant at which a payment's expiry is due; false
// when none can expire.
func (e *Engine) NextDue(ctx context.Context) (domain.Instant, bool, error) {
	first, ok, err := firstOf(ctx, e, &e.due.table)
	if err != nil || !ok {
		return 0, false, err
	}
	return domain.Instant(binary.BigEndian.Uint64([]byte(first.key[:8]))), true, nil
}

// firstOf is the entry with a table's lowest key.
func firstOf[V any](ctx context.Context, e *Engine, t *table[V]) (entry[V], bool, error) {
	if err := e.fresh(ctx); err != nil {
		return entry[V]{}, false, err
	}
	rest := &keyRange{}
	for rest != nil {
		var found []entry[V]
		var err error
		if found, rest, err = window(ctx, e, t, *rest, false, 1); err != nil {
			return entry[V]{}, false, err
		}
		if len(found) > 0 {
			return found[0], true, nil
		}
	}
	return entry[V]{}, false, nil
}
