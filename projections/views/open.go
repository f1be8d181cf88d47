package views

import (
	"context"

	"payledger/domain"
	"payledger/projections/table"
)

// openView lists the payments about which something is to be done. The key is the
// payment's id, the value what readers have to know before they read the payment.
type openView[V comparable] struct {
	*table.Table[V]

	lists func(domain.Payment) bool
	value func(domain.Payment) V
}

// newUncollectedView lists the payments about which something is to be done or
// learned at a provider, with how much that is.
func newUncollectedView(db *table.DB) *openView[domain.Outstanding] {
	return &openView[domain.Outstanding]{
		Table: table.New(db, "uncollected", appendValue[domain.Outstanding], parseValue[domain.Outstanding]),
		lists: domain.Payment.Uncollected, value: domain.Payment.Outstanding,
	}
}

// newSuspenseView lists the payments whose money the operator has to clear, with
// their project.
func newSuspenseView(db *table.DB) *openView[string] {
	return &openView[string]{
		Table: newTextTable(db, "suspense"),
		lists: domain.Payment.AwaitsOperator, value: func(p domain.Payment) string { return p.Project },
	}
}

// newTextTable is a table of texts.
func newTextTable(db *table.DB, name string) *table.Table[string] {
	return table.New(
		db, name,
		func(b []byte, value string) ([]byte, error) { return append(b, value...), nil },
		func(b []byte) (string, error) { return string(b), nil },
	)
}

func (v *openView[V]) update(before, after *PaymentRow) {
	listed, is := before != nil && v.lists(before.Payment), v.lists(after.Payment)
	key := idKey(after.Payment.ID)
	switch {
	case is && !listed:
		v.Insert(key, v.value(after.Payment))
	case is && v.value(before.Payment) != v.value(after.Payment):
		v.Replace(key, v.value(after.Payment))
	case listed && !is:
		v.Delete(key)
	}
}

// EachUncollected calls fn for the payments that Payment.Uncollected is true of, oldest first,
// after an id, up to limit, until fn returns an error, which it returns.
func (v *Views) EachUncollected(ctx context.Context, after domain.ID, limit int, fn func(o domain.Outstanding, payment domain.ID) error) error {
	return eachOpen(ctx, v, v.uncollected, after, limit, fn)
}

// EachInSuspense is EachUncollected for the payments that Payment.AwaitsOperator is
// true of.
func (v *Views) EachInSuspense(ctx context.Context, after domain.ID, limit int, fn func(project string, payment domain.ID) error) error {
	return eachOpen(ctx, v, v.suspense, after, limit, fn)
}

func eachOpen[V comparable](
	ctx context.Context, v *Views, of *openView[V], after domain.ID, limit int, fn func(value V, payment domain.ID) error,
) error {
	if err := v.fresh(ctx); err != nil {
		return err
	}
	return eachInWindows(ctx, of.Table, table.Range{Lo: idKey(after) + "\x00"}, limit, fn)
}

// eachInWindows is eachRow for keys that end in a payment's id.
func eachInWindows[V any](
	ctx context.Context, of *table.Table[V], rest table.Range, limit int, fn func(value V, payment domain.ID) error,
) error {
	return eachRow(ctx, of, rest, limit, func(key string, value V) error { return fn(value, idOf(key)) })
}

// eachRow calls fn for up to limit rows of a range, in ascending order, until fn
// answers an error, which it returns. No lock is held while fn runs.
func eachRow[V any](ctx context.Context, of *table.Table[V], rest table.Range, limit int, fn func(key string, value V) error) error {
	for limit > 0 {
		found, next, err := of.Window(ctx, rest, false, min(limit, table.MaxWindow))
		if err != nil {
			return err
		}
		for _, row := range found {
			if err := fn(row.Key, row.Value); err != nil {
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
