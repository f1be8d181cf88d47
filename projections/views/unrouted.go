package views

import (
	"context"
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/table"
)

// unroutedView orders the payments that are still `created` by the position of
// their payment.created, as 8 bytes.
type unroutedView struct{ *table.Table[domain.ID] }

func newUnroutedView(db *table.DB) *unroutedView {
	return &unroutedView{table.New(db, "unrouted", appendID, parseID)}
}

func (v *unroutedView) update(before, after *PaymentRow) {
	listed, unrouted := unrouted(before), unrouted(after)
	switch {
	case listed && !unrouted:
		v.Delete(uint64Key(uint64(before.Position)))
	case unrouted && !listed:
		v.Insert(uint64Key(uint64(after.Position)), after.Payment.ID)
	}
}

func unrouted(row *PaymentRow) bool { return row != nil && row.Payment.Status == domain.Created }

// OldestUnrouted is the lowest position of a payment.created whose payment is
// still `created`; false when there is none.
func (v *Views) OldestUnrouted(ctx context.Context) (eventstore.Position, bool, error) {
	key, ok, err := lowestKey(ctx, v, v.unrouted.Table)
	if err != nil || !ok {
		return 0, false, err
	}
	return eventstore.Position(binary.BigEndian.Uint64([]byte(key))), true, nil
}

// EachUnrouted calls fn for the positions of payment.created whose payments are still `created`,
// lowest first, after a position, up to limit, until fn returns an error, which it returns.
func (v *Views) EachUnrouted(ctx context.Context, after eventstore.Position, limit int, fn func(created eventstore.Position) error) error {
	if err := v.fresh(ctx); err != nil {
		return err
	}
	found, err := v.unrouted.First(ctx, table.Range{Lo: uint64Key(uint64(after) + 1)}, false, limit)
	if err != nil {
		return err
	}
	for _, row := range found {
		if err := fn(eventstore.Position(binary.BigEndian.Uint64([]byte(row.Key)))); err != nil {
			return err
		}
	}
	return nil
}
