package main

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/connector/connectortest"
)

// These kill the server around the call that cancels the open attempt of an expiring
// payment, and before the payment has expired. In the end it has expired and cannot be
// paid any more; or the customer was first, and it is paid once.

func TestKillAtExpiryAtStripe(t *testing.T)   { killedAtExpiry(t, "stripe") }
func TestKillAtExpiryAtYooKassa(t *testing.T) { killedAtExpiry(t, "yookassa") }
func TestKillAtExpiryAtAdapter(t *testing.T)  { killedAtExpiry(t, "http") }

func killedAtExpiry(t *testing.T, name string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it kills the program, which the race detector does not watch: run without -short")
	}
	t.Parallel()
	moments := []moment{beforeCall, beforeReply}
	for range rounds(1, 8) {
		moments = append(moments, afterReply)
	}
	s := openTill(t, provider(t, name))
	s.kill()
	pays := map[bill]bool{}
	references := map[bill]string{}
	for i, at := range moments {
		for _, first := range []bool{false, true} {
			b, reference := s.handedOver(t, domain.MinLifetime+domain.Grace+time.Minute, domain.MinLifetime)
			pays[b], references[b] = first, reference
			if first && !s.provider.Pay(reference) {
				t.Fatal("the customer cannot pay")
			}
			s.killedAtStart(t, at, time.Duration(i)*3*time.Millisecond)
			s.restart(t)
			if s.provider.keeps && !first {
				s.provider.Sent() // lost: each about the payment would wait its turn
				s.provider.Expire(reference)
				s.notify(t)
			}
			eventually(t, "the attempt has ended", func() bool {
				return s.has(t, b, domain.TypePaymentAttemptFailed) || s.has(t, b, domain.TypePaymentPaid)
			})
			s.kill()
		}
	}
	s.restart(t)
	ended := map[string]int{}
	for b, first := range pays {
		status := ""
		eventually(t, "the payment has ended", func() bool {
			status = s.do(t, http.StatusOK, http.MethodGet, paymentPath(b), "").text(t, "status")
			return status != "awaiting_payment"
		})
		ended[status]++
		collected := slices.ContainsFunc(s.provider.Collected(), func(m connectortest.Money) bool { return m.Payment == b.id })
		if collected != (status == "paid") || collected && !first || s.provider.Pay(references[b]) {
			t.Errorf("the customer has paid: %t; collected: %t; the payment is %s", first, collected, status)
		}
	}
	s.balanced(t, map[string]int{
		domain.TypePaymentExpired: ended["expired"], domain.TypePaymentAttemptFailed: ended["expired"], domain.TypePaymentPaid: ended["paid"],
		domain.TypePaymentLateFunds: 0, domain.TypePaymentSignalRefused: 0,
	})
	if ended["expired"] < len(moments) {
		t.Errorf("the payments have ended so: %v", ended)
	}
}

// killedAtStart starts a server and kills it at the moment of its first call to the
// provider, also before it is ready.
func (s *till) killedAtStart(t *testing.T, at moment, later time.Duration) {
	t.Helper()
	next := newServer(s.command())
	started, killed := make(chan struct{}), make(chan struct{})
	s.provider.line.cutAt(0, at, func() {
		defer close(killed)
		<-started
		if at == afterReply {
			time.Sleep(later)
		}
		next.cmd.Process.Kill() //nolint:errcheck // it runs
	})
	out, err := next.begin()
	if err != nil {
		t.Fatal(err)
	}
	close(started)
	_ = next.ready(out) // or it is killed before
	select {
	case <-killed:
		<-next.exited
	case <-time.After(patience):
		next.kill()
		t.Fatalf("the server was not killed %s", at)
	}
}
