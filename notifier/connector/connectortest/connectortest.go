// Package connectortest holds the tests that every connector must pass.
package connectortest

import (
	"context"
	"errors"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
)

// Run checks the promises of connector.Connector. open makes a fresh one, in an
// environment whose provider answers, and is called once for each check.
func Run(t *testing.T, open func(t *testing.T) connector.Connector) {
	t.Helper()
	t.Run("its route can stand in rules and subjects", func(t *testing.T) {
		rule := domain.Rule{Route: open(t).Route(), Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1}
		if err := (domain.RoutingTable{rule}).Validate(); err != nil {
			t.Error(err)
		}
	})
	t.Run("a call may be repeated, and calls for payments alternate", func(t *testing.T) {
		a := open(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for n := range byte(3) {
			p, r := payment(a.Route(), n)
			for range 2 {
				if err := a.Assigned(ctx, p); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if err := a.RefundRequested(ctx, p, r); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	t.Run("it lets go when the context has ended", func(t *testing.T) {
		a := open(t)
		p, r := payment(a.Route(), 7)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for what, err := range map[string]error{
			"Assigned": a.Assigned(ctx, p), "RefundRequested": a.RefundRequested(ctx, p, r),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want the context's error", what, err)
			}
		}
	})
}

// payment is a payment with a refund asked of it.
func payment(route string, n byte) (domain.Payment, domain.Refund) {
	at := domain.InstantOf(time.Date(2026, 11, 20, 10, 15, 30, 0, time.UTC))
	r := domain.Refund{
		ID: domain.ID{1, 160, 112, 2, n}, Status: domain.RefundPending, Amount: 150000, Currency: domain.DefaultCurrency, CreatedAt: at,
	}
	return domain.Payment{
		Project: "prj_test", ID: domain.ID{1, 160, 112, 1, n}, Status: domain.Paid, Amount: 150000, Currency: domain.DefaultCurrency,
		Payload: domain.EmptyObject(), CreatedAt: at, ExpiresAt: at.Add(time.Hour), Route: route, Refunds: []domain.Refund{r},
	}, r
}
