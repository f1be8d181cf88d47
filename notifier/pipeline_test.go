package notifier

import (
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/acquirer"
)

// pipeline is the whole room at work on an embedded server.
func pipeline(tb testing.TB, c *Conn, b *book) {
	tb.Helper()
	run(tb, newRelay(c, b).Run)
	run(tb, newWorkers(tb, c, b).Run)
	run(tb, newEnforcer(tb, c, b).Run)
}

func TestPaymentFromCreationToRefund(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	c := connectTo(t, startServer(t, ServerConfig{}))
	pipeline(t, c, b)
	sandbox := acquirer.NewSandbox(acquirer.Env{NATS: c.NATS(), Now: time.Now})

	id := b.create(t, time.Hour)
	// Most likely before the route is assigned: the enforcer waits for it.
	reply, err := sandbox.SignalPayment(within(t), b.payment(t, id), domain.OutcomePaid, "ref-1")
	if err != nil || reply.Result != domain.SignalApplied || reply.EventID == nil {
		t.Fatalf("paid: %+v, %v", reply, err)
	}
	p := b.payment(t, id)
	if p.Status != domain.Paid || p.Route != domain.SandboxRoute {
		t.Fatalf("payment is %s on %q", p.Status, p.Route)
	}
	refund := b.ids.Next()
	p = b.do(t, id, domain.CreateRefund{RefundID: refund})
	reply, err = sandbox.SignalRefund(within(t), p, refund, domain.OutcomeSucceeded, "ref-2")
	if err != nil || reply.Result != domain.SignalApplied {
		t.Fatalf("refunded: %+v, %v", reply, err)
	}
	if r, _ := b.payment(t, id).Refund(refund); r.Status != domain.RefundSucceeded {
		t.Fatalf("refund is %s", r.Status)
	}
	sameAsLog(t, c.JetStream(), b)
}
