package domain_test

import (
	"slices"
	"testing"

	"payledger/domain"
)

// TestPaymentStatusTransitions lists all transitions: any other is impossible.
func TestPaymentStatusTransitions(t *testing.T) {
	t.Parallel()
	allowed := map[domain.PaymentStatus][]domain.PaymentStatus{
		"":                     {domain.Created, domain.AwaitingPayment},
		domain.Created:         {domain.AwaitingPayment, domain.Expired, domain.Failed},
		domain.AwaitingPayment: {domain.Paid, domain.Expired, domain.Failed},
		domain.Paid:            {},
		domain.Expired:         {},
		domain.Failed:          {},
		"unheard of":           {},
	}
	all := append(domain.PaymentStatuses(), "", "unheard of")
	if len(all) != len(allowed) {
		t.Fatalf("%d statuses, want %d", len(all), len(allowed))
	}
	for from, next := range allowed {
		for _, to := range all {
			if got, want := from.CanBecome(to), slices.Contains(next, to); got != want {
				t.Errorf("%q can become %q: %t, want %t", from, to, got, want)
			}
		}
		known := slices.Contains(domain.PaymentStatuses(), from)
		if got, want := from.Final(), known && len(next) == 0; got != want {
			t.Errorf("%q is final: %t, want %t", from, got, want)
		}
	}
}

func TestRefundStatusTransitions(t *testing.T) {
	t.Parallel()
	allowed := map[domain.RefundStatus][]domain.RefundStatus{
		"":                     {domain.RefundPending},
		domain.RefundPending:   {domain.RefundSucceeded, domain.RefundFailed},
		domain.RefundSucceeded: {},
		domain.RefundFailed:    {},
		"unheard of":           {},
	}
	all := append(domain.RefundStatuses(), "", "unheard of")
	if len(all) != len(allowed) {
		t.Fatalf("%d statuses, want %d", len(all), len(allowed))
	}
	for from, next := range allowed {
		for _, to := range all {
			if got, want := from.CanBecome(to), slices.Contains(next, to); got != want {
				t.Errorf("%q can become %q: %t, want %t", from, to, got, want)
			}
		}
		known := slices.Contains(domain.RefundStatuses(), from)
		if got, want := from.Final(), known && len(next) == 0; got != want {
			t.Errorf("%q is final: %t, want %t", from, got, want)
		}
	}
}

// TestStatusNames fixes the names in the API.
func TestStatusNames(t *testing.T) {
	t.Parallel()
	if got := domain.PaymentStatuses(); !slices.Equal(got, []domain.PaymentStatus{
		"created", "awaiting_payment", "paid", "expired", "failed",
	}) {
		t.Errorf("payment statuses %q", got)
	}
	if got := domain.RefundStatuses(); !slices.Equal(got, []domain.RefundStatus{"pending", "succeeded", "failed"}) {
		t.Errorf("refund statuses %q", got)
	}
}
