package views

import (
	"context"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/projections/table"
)

// referencesView leads from a provider's reference to the payment: route, 0,
// reference, 0, payment's id. It has the references of attempts and of booked
// money, and behind backOf those of refunds and disputes. There is no value.
type referencesView struct{ *table.Table[struct{}] }

func newReferencesView(db *table.DB) *referencesView {
	return &referencesView{table.New(
		db, "references",
		func(b []byte, _ struct{}) ([]byte, error) { return b, nil },
		func([]byte) (struct{}, error) { return struct{}{}, nil },
	)}
}

func (v *referencesView) update(before, after *PaymentRow) {
	var old domain.Payment
	if before != nil {
		old = before.Payment
	}
	known := referencesOf(old)
	for _, reference := range referencesOf(after.Payment) {
		if !slices.Contains(known, reference) {
			v.Insert(listKeyOf(after.Payment.ID, after.Payment.Route, reference), struct{}{})
		}
	}
	known = referencesBack(old)
	for _, reference := range referencesBack(after.Payment) {
		if !slices.Contains(known, reference) {
			v.Insert(listKeyOf(after.Payment.ID, backOf(after.Payment.Route), reference), struct{}{})
		}
	}
}

// backOf is in the place of the route in the keys of references under which a payment's money went
// back.
func backOf(route string) string { return route + "\x01" }

// referencesBack are the references of the payment's refunds, returns and disputes.
func referencesBack(p domain.Payment) []string {
	var all []string
	for _, s := range p.Signals {
		if back := s.RefundID != nil || s.Outcome.AboutDispute(); back && s.Route == p.Route && s.Reference != "" && !slices.Contains(all, s.Reference) {
			all = append(all, s.Reference)
		}
	}
	return all
}

// referencesOf are the references under which a provider may know the payment.
func referencesOf(p domain.Payment) []string {
	var all []string
	add := func(reference string) {
		if reference != "" && !slices.Contains(all, reference) {
			all = append(all, reference)
		}
	}
	for _, a := range p.Attempts {
		add(a.Reference)
	}
	for _, s := range p.Signals {
		if s.Route == p.Route && s.RefundID == nil && s.Outcome == domain.OutcomePaid {
			add(s.Reference)
		}
	}
	return all
}

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
	return v.paymentOfReference(ctx, route, reference)
}

// PaymentOfMoneyBack finds the payment of the route of which a refund, a return or a dispute has
// this provider's reference; the first of them if there are more.
func (v *Views) PaymentOfMoneyBack(ctx context.Context, route, reference string) (domain.ID, bool, error) {
	return v.paymentOfReference(ctx, backOf(route), reference)
}

func (v *Views) paymentOfReference(ctx context.Context, route, reference string) (domain.ID, bool, error) {
	if err := v.fresh(ctx); err != nil {
		return domain.ID{}, false, err
	}
	found, err := v.references.First(ctx, table.Prefix(listKey(route, reference)), false, 1)
	if err != nil || len(found) == 0 {
		return domain.ID{}, false, err
	}
	return idOf(found[0].Key), true, nil
}
