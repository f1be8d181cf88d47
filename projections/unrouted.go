package projections

import (
	"context"
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore"
)

// unroutedView orders the payments that are still `created` by the position of
// their payment.created, as 8 bytes.
type unroutedView struct{ table[domain.ID] }

func newUnroutedView() *unroutedView {
	return &unroutedView{newTable("unrouted", appendID, parseID)}
}

func (*unroutedView) version() int { return 1 }

func (v *unroutedView) move(before, after *paymentRow) {
	was, is := unrouted(before), unrouted(after)
	switch {
	case was && !is:
		v.remove(uint64Key(uint64(before.Position)))
	case is && !was:
		v.insert(uint64Key(uint64(after.Position)), after.Payment.ID)
	}
}

func unrouted(row *paymentRow) bool { return row != nil && row.Payment.Status == domain.Created }

// OldestUnrouted is the lowest position of a payment.created whose payment is
// still `created`; false when there is none.
func (e *Engine) OldestUnrouted(ctx context.Context) (eventstore.Position, bool, error) {
	first, ok, err := firstOf(ctx, e, &e.unrouted.table)
	if err != nil || !ok {
		return 0, false, err
	}
	return eventstore.Position(binary.BigEndian.Uint64([]byte(first.key))), true, nil
}
