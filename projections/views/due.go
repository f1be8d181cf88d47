package views

import (
	"context"
	"encoding/binary"

	"payledger/domain"
	"payledger/projections/table"
)

// dueView orders the payments that can still expire by when they are to:
// Payment.ExpiryDue as 8 bytes, id. The value is the project.
type dueView struct{ *table.Table[string] }

func newDueView(db *table.DB) *dueView {
	return &dueView{table.New(
		db, "due",
		func(b []byte, project string) ([]byte, error) { return append(b, project...), nil },
		func(b []byte) (string, error) { return string(b), nil },
	)}
}

func (v *dueView) update(before, after *PaymentRow) {
	listedKey, listed := dueKey(before)
	key, due := dueKey(after)
	if listed == due && listedKey == key {
		return
	}
	if listed {
		v.Delete(listedKey)
	}
	if due {
		v.Insert(key, after.Payment.Project)
	}
}

func dueKey(row *PaymentRow) (string, bool) {
	if row == nil || !row.Payment.Status.CanBecome(domain.Expired) {
		return "", false
	}
	return dueStart(row.Payment.ExpiryDue()) + idKey(row.Payment.ID), true
}

// dueStart begins the keys of an instant.
func dueStart(at domain.Instant) string { return uint64Key(uint64(max(at, 0))) }

// EachDue calls fn for up to limit payments whose expiry is due at the instant
// before or earlier (Payment.ExpiryDue), soonest first, until fn answers an
// error, which it returns. fn may issue commands.
func (v *Views) EachDue(
	ctx context.Context, before domain.Instant, limit int, fn func(project string, payment domain.ID) error,
) error {
	if err := v.fresh(ctx); err != nil {
		return err
	}
	return eachInWindows(ctx, v.due.Table, table.Range{Hi: dueStart(before + 1)}, limit, fn)
}

// NextDue is the earliest instant at which a payment's expiry is due; false
// when none can expire.
func (v *Views) NextDue(ctx context.Context) (domain.Instant, bool, error) {
	key, ok, err := lowestKey(ctx, v, v.due.Table)
	if err != nil || !ok {
		return 0, false, err
	}
	return domain.Instant(binary.BigEndian.Uint64([]byte(key[:8]))), true, nil
}

func lowestKey[V any](ctx context.Context, v *Views, t *table.Table[V]) (string, bool, error) {
	if err := v.fresh(ctx); err != nil {
		return "", false, err
	}
	found, err := t.First(ctx, table.Range{}, false, 1)
	if err != nil || len(found) == 0 {
		return "", false, err
	}
	return found[0].Key, true, nil
}
