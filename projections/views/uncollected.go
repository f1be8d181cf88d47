package views

import (
	"context"

	"payledger/domain"
	"payledger/projections/table"
)

// uncollectedView lists the payments about which something is to be done or
// learned at a provider: those with an open attempt, or with a refund or a return
// of late funds that is pending. The key is the payment's id.
type uncollectedView struct{ *table.Table[string] }

func newUncollectedView(db *table.DB) *uncollectedView {
	return &uncollectedView{table.New(
		db, "uncollected",
		func(b []byte, project string) ([]byte, error) { return append(b, project...), nil },
		func(b []byte) (string, error) { return string(b), nil },
	)}
}

func (v *uncollectedView) update(before, after *PaymentRow) {
	listed, is := before != nil && before.Payment.Uncollected(), after.Payment.Uncollected()
	switch {
	case is && !listed:
		v.Insert(idKey(after.Payment.ID), after.Payment.Project)
	case listed && !is:
		v.Delete(idKey(after.Payment.ID))
	}
}

// EachUncollected calls fn for the payments that Payment.Uncollected is true of,
// oldest first, from behind an id, up to limit, until fn answers an error, which
// it returns.
func (v *Views) EachUncollected(ctx context.Context, after domain.ID, limit int, fn func(project string, payment domain.ID) error) error {
	if err := v.fresh(ctx); err != nil {
		return err
	}
	rest := table.Range{Lo: idKey(after) + "\x00"}
	for limit > 0 {
		found, next, err := v.uncollected.Window(ctx, rest, false, min(limit, table.MaxWindow))
		if err != nil {
			return err
		}
		for _, row := range found {
			if err := fn(row.Value, idOf(row.Key)); err != nil {
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
