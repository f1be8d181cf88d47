package views

import (
	"context"

	"payledger/domain"
	"payledger/projections/table"
)

// openView lists the payments about which something is to be done. The key is the
// payment's id, the value what readers have to know before they read the payment.
type openView struct {
	*table.Table[string]

	lists func(domain.Payment) bool
	value func(domain.Payment) string
}

// newUncollectedView lists the payments about which something is to be done or
// learned at a provider, with their route.
func newUncollectedView(db *table.DB) *openView {
	return newOpenView(db, "uncollected", domain.Payment.Uncollected, func(p domain.Payment) string { return p.Route })
}

// newSuspenseView lists the payments whose money the operator has to clear, with
// their project.
func newSuspenseView(db *table.DB) *openView {
	return newOpenView(db, "suspense", domain.Payment.AwaitsOperator, func(p domain.Payment) string { return p.Project })
}

func newOpenView(db *table.DB, name string, lists func(domain.Payment) bool, value func(domain.Payment) string) *openView {
	return &openView{lists: lists, value: value, Table: newTextTable(db, name)}
}

// newTextTable is a table of texts.
func newTextTable(db *table.DB, name string) *table.Table[string] {
	return table.New(
		db, name,
		func(b []byte, value string) ([]byte, error) { return append(b, value...), nil },
		func(b []byte) (string, error) { return string(b), nil },
	)
}

func (v *openView) update(before, after *PaymentRow) {
	listed, is := before != nil && v.lists(before.Payment), v.lists(after.Payment)
	switch {
	case is && !listed:
		v.Insert(idKey(after.Payment.ID), v.value(after.Payment))
	case listed && !is:
		v.Delete(idKey(after.Payment.ID))
	}
}

// EachUncollected calls fn for the payments that Payment.Uncollected is true of,
// oldest first, from behind an id, up to limit, until fn answers an error, which
// it returns.
func (v *Views) EachUncollected(ctx context.Context, after domain.ID, limit int, fn func(route string, payment domain.ID) error) error {
	return v.eachOpen(ctx, v.uncollected, after, limit, fn)
}

// EachInSuspense is EachUncollected for the payments that Payment.AwaitsOperator is
// true of.
func (v *Views) EachInSuspense(ctx context.Context, after domain.ID, limit int, fn func(project string, payment domain.ID) error) error {
	return v.eachOpen(ctx, v.suspense, after, limit, fn)
}

func (v *Views) eachOpen(ctx context.Context, of *openView, after domain.ID, limit int, fn func(value string, payment domain.ID) error) error {
	if err := v.fresh(ctx); err != nil {
		return err
	}
	return eachInWindows(ctx, of.Table, table.Range{Lo: idKey(after) + "\x00"}, limit, fn)
}

// eachInWindows is eachRow for keys that end in a payment's id.
func eachInWindows(
	ctx context.Context, of *table.Table[string], rest table.Range, limit int, fn func(value string, payment domain.ID) error,
) error {
	return eachRow(ctx, of, rest, limit, func(key, value string) error { return fn(value, idOf(key)) })
}

// eachRow calls fn for up to limit rows of a range, in ascending order, until fn
// answers an error, which it returns. No lock is held while fn runs.
func eachRow(ctx context.Context, of *table.Table[string], rest table.Range, limit int, fn func(key, value string) error) error {
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
