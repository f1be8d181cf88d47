package service

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/domain"
)

// BenchmarkCounting is what the metrics cost a payment that is created, routed and
// paid, each in a group of commits of its own.
func BenchmarkCounting(b *testing.B) {
	m := prometheus.NewRegistry()
	committed := commitMetrics(m)
	changed, _ := paymentMetrics(m)
	steps := []*domain.Payment{nil, {Status: domain.Created}, {Status: domain.AwaitingPayment, Route: "acme"}, {Status: domain.Paid, Route: "acme"}}
	b.ReportAllocs()
	for b.Loop() {
		for i := 1; i < len(steps); i++ {
			committed(1, time.Millisecond)
			changed(domain.PaymentExpired{}, steps[i-1], steps[i])
		}
	}
}
