package views

import (
	"context"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/projections/table"
)

// referencesView leads from a provider's reference to the payment: route, 0,
// reference, 0, payment's id. It has the references of attempts and of booked
// money, and behind backOf those of refunds, also by another hand, and disputes. There is no value.
type referencesView struct{ *table.Table[string] }

func newReferencesView(db *table.DB) *referencesView {
	return &referencesView{newTextTable[string](db, "references")}
}

func (v *referencesView) update(before, after *PaymentRow) {
	var old domain.Payment
	if before != nil {
		old = before.Payment
	}
	knownIn, knownBack := old.References()
	in, back := after.Payment.References()
	for _, of := range []struct {
		known, now []string
		route      string
	}{{knownIn, in, after.Payment.Route}, {knownBack, back, backOf(after.Payment.Route)}} {
		for _, reference := range of.now {
			if !slices.Contains(of.known, reference) {
				v.Insert(listKeyOf(after.Payment.ID, of.route, reference), "")
			}
		}
	}
}

// backOf is in the place of the route in the keys of references under which a payment's money went
// back.
func backOf(route string) string { return route + "\x01" }

// maxOfReference is how many payments PaymentsOfReference finds in a route.
const maxOfReference = 100

// PaymentsOfReference finds the payments with a provider's reference, the first hundred of each
// route. The empty route is all routes.
func (v *Views) PaymentsOfReference(ctx context.Context, route, reference string) ([]domain.ID, error) {
	if err := v.fresh(ctx); err != nil {
		return nil, err
	}
	var ids []domain.ID
	for one := route; ; {
		if route == "" { // the next one that has any reference
			next, err := v.references.First(ctx, table.Range{Lo: one}, false, 1)
			if err != nil || len(next) == 0 {
				return ids, err
			}
			if one, _, _ = strings.Cut(next[0].Key, "\x00"); strings.HasSuffix(one, backOf("")) {
				one = backOf(one)
				continue
			}
		}
		found, err := v.references.First(ctx, table.Prefix(listKey(one, reference)), false, maxOfReference)
		if err != nil {
			return nil, err
		}
		for _, row := range found {
			ids = append(ids, idOf(row.Key))
		}
		if route != "" {
			return ids, nil
		}
		one = backOf(one) // after all keys of the route
	}
}

// PaymentOfReference finds the payment of the route with this provider's reference; the first of
// them if there are more.
func (v *Views) PaymentOfReference(ctx context.Context, route, reference string) (domain.ID, bool, error) {
	if err := v.fresh(ctx); err != nil {
		return domain.ID{}, false, err
	}
	found, err := v.references.First(ctx, table.Prefix(listKey(route, reference)), false, 1)
	if err != nil || len(found) == 0 {
		return domain.ID{}, false, err
	}
	return idOf(found[0].Key), true, nil
}

// PaymentOfLine finds the payment that a line of a report of the route names: by our id, by that of
// a refund, or by the provider's reference. The zero Payment: it names none.
func (v *Views) PaymentOfLine(ctx context.Context, route string, l settlement.Line) (domain.Payment, error) {
	if !l.Kind.Names() {
		return domain.Payment{}, nil
	}
	if id, ok := domain.ParseID(l.PaymentID); ok {
		if p, found, err := v.Payment(ctx, id); found || err != nil {
			return p, err
		}
	}
	if id, ok := domain.ParseID(l.RefundID); ok {
		if p, _, found, err := v.Refund(ctx, id); found || err != nil {
			return p, err
		}
	}
	if l.Reference == "" {
		return domain.Payment{}, nil
	}
	id, found, err := v.PaymentOfReference(ctx, route, l.Reference)
	if !found && err == nil && l.Kind != settlement.KindPayment {
		id, found, err = v.PaymentOfReference(ctx, backOf(route), l.Reference)
	}
	if !found || err != nil {
		return domain.Payment{}, err
	}
	p, _, err := v.Payment(ctx, id)
	return p, err
}
