package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"payledger/domain"
)

// These take payments through a provider of each type: followed by polling alone and
// by notification alone, refunded, paid by a second attempt, and paid with a wrong
// amount.

func TestPaymentAtStripe(t *testing.T)   { paidAtProvider(t, "stripe") }
func TestPaymentAtYooKassa(t *testing.T) { paidAtProvider(t, "yookassa") }
func TestPaymentAtAdapter(t *testing.T)  { paidAtProvider(t, "http") }

func paidAtProvider(t *testing.T, name string) {
	t.Helper()
	t.Parallel()
	p := provider(t, name)
	s := openTill(t, p)

	polled := s.create(t)
	to := s.handOver(t, polled)
	if again := s.handOver(t, polled); again != to {
		t.Errorf("the same attempt leads to %s and to %s", to, again)
	}
	s.comeBack(t, polled, s.atProvider(t, to, "pay"))
	s.becomes(t, paymentPath(polled), "paid")
	p.Sent() // lost

	// An attempt that fails can be made again.
	declined := s.create(t)
	first := s.handOver(t, declined)
	s.atProvider(t, first, "decline")
	p.Expire(p.Attempts(declined.id)[0]) // where a decline leaves it open
	s.notify(t)
	eventually(t, "the page offers another attempt", func() bool {
		return strings.Contains(string(s.visit(t, http.MethodGet, s.BaseURL+declined.page, nil).Body), `data-state="declined"`)
	})
	second := s.handOver(t, declined)
	if second == first {
		t.Errorf("the second attempt leads to %s again", first)
	}

	noticed := s.create(t)
	s.atProvider(t, s.handOver(t, noticed), "pay")
	s.atProvider(t, second, "pay")
	s.notify(t)
	s.becomes(t, paymentPath(noticed), "paid")
	s.becomes(t, paymentPath(declined), "paid")

	// A wrong amount does not pay the payment, and is recorded.
	p.WrongAmount()
	wrong := s.create(t)
	s.comeBack(t, wrong, s.atProvider(t, s.handOver(t, wrong), "pay"))
	s.refunded(t, s.refund(t, polled))
	eventually(t, "the wrong amount is late funds", func() bool { return s.has(t, wrong, domain.TypePaymentLateFunds) })
	s.balanced(t, map[string]int{
		domain.TypePaymentAttemptBegun: 5, domain.TypePaymentAttemptOffered: 5,
		domain.TypePaymentPaid: 3, domain.TypePaymentLateFunds: 1, domain.TypePaymentSignalRefused: 0, domain.TypeRefundSucceeded: 1,
	})
}

// TestSandboxSpeaksForNoProvider: with --sandbox, neither a merchant's key nor the
// operator can decide a payment that a provider collects.
func TestSandboxSpeaksForNoProvider(t *testing.T) {
	t.Parallel()
	s := openTill(t, provider(t, "stripe"))
	s.stops(t)
	s.args = append(s.args, "--sandbox")
	s.restart(t)
	p := s.create(t)
	path := paymentPath(p)
	s.becomes(t, path, "awaiting_payment")
	a := s.do(t, http.StatusConflict, http.MethodPost, strings.Replace(path, "/v1/", "/v1/sandbox/", 1), `{"outcome":"paid"}`)
	if !strings.Contains(string(a.Body), `"code":"not_simulated"`) {
		t.Errorf("%s", a.Body)
	}
	if out, code := payledger(t, "sandbox", "pay", p.id.String(), "--data", s.data); code == 0 || !strings.Contains(out, "real provider") {
		t.Errorf("%d: %s", code, out)
	}
	s.becomes(t, path, "awaiting_payment")
}

// TestAskingProvider: the notifications of a payment and of a refund made at the
// provider are lost, and the next poll is minutes away. The operator asks the
// provider, and both are recorded before the answer.
func TestAskingProvider(t *testing.T) {
	t.Parallel()
	for name, play := range providers() {
		t.Run(name, func(t *testing.T) {
			p := play(t)
			s := openTill(t, p)
			s.stops(t)
			b, reference := s.handedOver(t, 30*time.Minute, 4*time.Hour)
			before := p.line.count()
			s.restart(t)
			eventually(t, "the server has looked at the attempt", func() bool { return p.line.count() > before })
			if !p.Pay(reference) {
				t.Fatal("the customer cannot pay")
			}
			p.Sent() // lost
			if s.has(t, b, domain.TypePaymentPaid) {
				t.Error("the provider was asked without need")
			}
			ask := func(want string) {
				t.Helper()
				out, code := payledger(t, "payments", "ask", b.id.String(), "--data", s.data, "--json")
				if code != 0 || !strings.Contains(out, want) {
					t.Errorf("asked: exit code %d, want %s in\n%s", code, want, out)
				}
			}
			ask(`"status":"paid"`)
			if !p.RefundByHand(reference) {
				t.Fatal("the money cannot be refunded by hand")
			}
			p.Sent() // lost
			ask(`"refund_reference":`)
			s.balanced(t, map[string]int{domain.TypePaymentRefundedAtProvider: 1})
		})
	}
}
