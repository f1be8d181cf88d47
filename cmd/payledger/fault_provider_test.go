package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"payledger/domain"
)

// These kill the server around every call of a payment's life: when an attempt is begun,
// after the customer was handed over, when the money is collected and when it is
// refunded. Each time the restarted server completes what was begun, once.

func TestKillAtStripe(t *testing.T)   { killedAtProvider(t, "stripe") }
func TestKillAtYooKassa(t *testing.T) { killedAtProvider(t, "yookassa") }
func TestKillAtAdapter(t *testing.T)  { killedAtProvider(t, "http") }

func killedAtProvider(t *testing.T, name string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it kills the program, which the race detector does not watch: run without -short")
	}
	t.Parallel()
	moments := []moment{beforeCall, beforeReply}
	for range rounds(0, 5) {
		moments = append(moments, afterReply) // each time the server gets a little further, or not
	}
	s := openTill(t, provider(t, name))
	var refunds []domain.ID
	for i, at := range moments {
		refunds = append(refunds, s.killedThroughout(t, at, time.Duration(i)*2*time.Millisecond))
	}
	for _, id := range refunds {
		s.refunded(t, id)
	}
	s.balanced(t, map[string]int{
		domain.TypePaymentAttemptBegun: len(moments), domain.TypePaymentAttemptOffered: len(moments), domain.TypePaymentAttemptFailed: 0,
		domain.TypePaymentPaid: len(moments), domain.TypePaymentLateFunds: 0, domain.TypeRefundSucceeded: len(moments),
	})
}

// killedThroughout takes a payment to its refund, which stays pending at the
// provider. It kills the server at each call that moves money.
func (s *till) killedThroughout(t *testing.T, at moment, later time.Duration) (refund domain.ID) {
	t.Helper()
	b := s.create(t)
	s.becomes(t, paymentPath(b), "awaiting_payment")
	s.killedAt(t, 0, at, later, func() { s.pressPay(t, b) })

	s.restart(t)
	page := ""
	eventually(t, "the customer is handed over after the crash", func() bool {
		page = s.pressPay(t, b).Header.Get("Location")
		return strings.HasPrefix(page, "https://"+s.provider.host+"/")
	})
	s.kill()
	s.restart(t)
	if again := s.handOver(t, b); again != page {
		t.Errorf("killed %s: the customer was sent to %s, after a crash to %s", at, page, again)
	}
	if made := s.provider.Attempts(b.id); len(made) != 1 {
		t.Errorf("killed %s: the provider has the attempts %q", at, made)
	}

	s.killedAt(t, s.provider.collects, at, later, func() {
		back := s.atProvider(t, page, "pay")
		s.visit(t, http.MethodGet, back, nil)
	})
	s.restart(t)
	s.becomes(t, paymentPath(b), "paid")

	var list []any
	for try := 0; try < 5 && len(list) == 0; try++ { // what is cut off may be a question about the payment, from before the refund
		s.killedAt(t, 0, at, later, func() {
			// The answer is lost when the server is killed first.
			_, _ = s.send(http.MethodPost, "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, b.id))
		})
		s.restart(t)
		list = s.do(t, http.StatusOK, http.MethodGet, "/v1/refunds?payment_id="+b.id.String(), "").object(t)["data"].([]any)
	}
	if len(list) != 1 {
		t.Fatalf("killed %s: the refunds are %v", at, list)
	}
	refund, ok := domain.ParseID(list[0].(map[string]any)["id"].(string))
	if !ok {
		t.Fatalf("killed %s: the refund is %v", at, list[0])
	}
	return refund
}

// killedAt runs do and waits until the server was killed at a call that follows from
// it.
func (s *till) killedAt(t *testing.T, call int, at moment, later time.Duration, do func()) {
	t.Helper()
	killed := make(chan struct{})
	running := s.server
	s.provider.line.cutAt(call, at, func() {
		if at == afterReply {
			time.Sleep(later)
		}
		running.kill()
		close(killed)
	})
	do()
	select {
	case <-killed:
	case <-time.After(patience):
		t.Fatalf("the server was not killed %s %d", at, call)
	}
}
