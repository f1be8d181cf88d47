package views

import (
	"context"
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/table"
)

// newUncollected lists the payments about which something is to be done or
// learned at a provider, with how much that is.
func newUncollected(db *table.DB) *listView[domain.Outstanding] {
	return openList(
		table.OfValues[domain.Outstanding](db, "uncollected"),
		domain.Payment.Uncollected, func(p *domain.Payment) domain.Outstanding { return p.Outstanding() },
	)
}

// newSuspense lists the payments whose money the operator has to clear, with
// their project.
func newSuspense(db *table.DB) *listView[string] {
	return openList(newTextTable[string](db, "suspense"), domain.Payment.AwaitsOperator, projectOf)
}

func projectOf(p *domain.Payment) string { return p.Project }

// openList lists the payments about which something is to be done, by id.
func openList[V comparable](t *table.Table[V], lists func(domain.Payment) bool, value func(*domain.Payment) V) *listView[V] {
	return &listView[V]{
		Table: t, value: value,
		part: func(p *domain.Payment) (string, bool) { return "", lists(*p) },
		key:  func(r *PaymentRow, _ string) string { return idKey(r.Payment.ID) },
	}
}

// EachUncollected calls fn for the payments that Payment.Uncollected is true of, oldest first,
// after an id, up to limit, until fn returns an error, which it returns.
func (v *Views) EachUncollected(ctx context.Context, after domain.ID, limit int, fn func(o domain.Outstanding, payment domain.ID) error) error {
	return eachOpen(ctx, v, v.uncollected, table.Range{Lo: idKey(after) + "\x00"}, limit, fn)
}

// EachInSuspense is EachUncollected for the payments that Payment.AwaitsOperator is
// true of.
func (v *Views) EachInSuspense(ctx context.Context, after domain.ID, limit int, fn func(project string, payment domain.ID) error) error {
	return eachOpen(ctx, v, v.suspense, table.Range{Lo: idKey(after) + "\x00"}, limit, fn)
}

// eachOpen is Each of a list whose keys end in a payment's id.
func eachOpen[V comparable](
	ctx context.Context, v *Views, of *listView[V], in table.Range, limit int, fn func(value V, payment domain.ID) error,
) error {
	if err := v.fresh(ctx); err != nil {
		return err
	}
	return of.Each(ctx, in, limit, func(key string, value V) error { return fn(value, idOf(key)) })
}

// newDue orders the payments that can still expire by when they are to:
// Payment.ExpiryDue as 8 bytes, id. The value is the project.
func newDue(db *table.DB) *listView[string] {
	return &listView[string]{
		Table: newTextTable[string](db, "due"), value: projectOf,
		part: func(p *domain.Payment) (string, bool) {
			if !p.Status.CanBecome(domain.Expired) {
				return "", false
			}
			return dueStart(p.ExpiryDue()), true
		},
		key: func(r *PaymentRow, due string) string { return due + idKey(r.Payment.ID) },
	}
}

// dueStart begins the keys of an instant.
func dueStart(at domain.Instant) string { return uint64Key(uint64(max(at, 0))) }

// EachDue calls fn for up to limit payments whose expiry is due at the instant
// before or earlier (Payment.ExpiryDue), soonest first, until fn answers an
// error, which it returns. fn may issue commands.
func (v *Views) EachDue(
	ctx context.Context, before domain.Instant, limit int, fn func(project string, payment domain.ID) error,
) error {
	return eachOpen(ctx, v, v.due, table.Range{Hi: dueStart(before + 1)}, limit, fn)
}

// NextDue is the earliest instant at which a payment's expiry is due; false
// when none can expire.
func (v *Views) NextDue(ctx context.Context) (domain.Instant, bool, error) {
	if err := v.fresh(ctx); err != nil {
		return 0, false, err
	}
	found, err := v.due.First(ctx, table.Range{}, false, 1)
	if err != nil || len(found) == 0 {
		return 0, false, err
	}
	return domain.Instant(binary.BigEndian.Uint64([]byte(found[0].Key[:8]))), true, nil
}

// newUnrouted orders the payments that are still `created` by the position of
// their payment.created: that as 8 bytes, id. The value is the project.
func newUnrouted(db *table.DB) *listView[string] {
	return &listView[string]{
		Table: newTextTable[string](db, "unrouted"), value: projectOf,
		part: func(p *domain.Payment) (string, bool) { return "", p.Status == domain.Created },
		key:  func(r *PaymentRow, _ string) string { return uint64Key(uint64(r.Position)) + idKey(r.Payment.ID) },
	}
}

// OldestUnrouted is the lowest position of a payment.created whose payment is
// still `created`; false when there is none.
func (v *Views) OldestUnrouted(ctx context.Context) (oldest eventstore.Position, ok bool, err error) {
	err = v.EachUnrouted(ctx, 0, 1, func(created eventstore.Position, _ string, _ domain.ID) error {
		oldest, ok = created, true
		return nil
	})
	return oldest, ok, err
}

// EachUnrouted calls fn for the payments that are still `created` with the positions of their
// payment.created, lowest first, after a position, up to limit, until fn returns an error, which it returns.
func (v *Views) EachUnrouted(
	ctx context.Context, after eventstore.Position, limit int, fn func(created eventstore.Position, project string, payment domain.ID) error,
) error {
	if err := v.fresh(ctx); err != nil {
		return err
	}
	return v.unrouted.Each(ctx, table.Range{Lo: uint64Key(uint64(after) + 1)}, limit, func(key, project string) error {
		return fn(eventstore.Position(binary.BigEndian.Uint64([]byte(key[:8]))), project, idOf(key))
	})
}
