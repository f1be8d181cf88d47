package notifier

import (
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/connector"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/notifiertest"
)

// pipeline is the whole room at work on an embedded server.
func pipeline(tb testing.TB, c *bus.Conn, b *bustest.Book) {
	tb.Helper()
	healthtest.Run(tb, relayOf(c, b).Run)
	healthtest.Run(tb, notifiertest.Workers(tb, b).Run)
	healthtest.Run(tb, notifiertest.Enforcer(tb, c, b).Run)
}

func TestPaymentFromCreationToRefund(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	pipeline(t, c, b)
	sandbox := connector.NewSandbox(c.NATS(), time.Now)

	id := b.Create(t, time.Hour)
	// Most likely before the route is assigned: the enforcer waits for it.
	reply, err := sandbox.SignalPayment(healthtest.Within(t), b.Payment(t, id), domain.OutcomePaid, "ref-1")
	if err != nil || reply.Result != domain.SignalApplied || reply.EventID == nil {
		t.Fatalf("paid: %+v, %v", reply, err)
	}
	p := b.Payment(t, id)
	if p.Status != domain.Paid || p.Route != domain.SandboxRoute {
		t.Fatalf("payment is %s on %q", p.Status, p.Route)
	}
	refund := b.IDs.Next()
	p = b.Do(t, id, domain.CreateRefund{RefundID: refund})
	reply, err = sandbox.SignalRefund(healthtest.Within(t), p, refund, domain.OutcomeSucceeded, "ref-2")
	if err != nil || reply.Result != domain.SignalApplied {
		t.Fatalf("refunded: %+v, %v", reply, err)
	}
	if r, _ := b.Payment(t, id).Refund(refund); r.Status != domain.RefundSucceeded {
		t.Fatalf("refund is %s", r.Status)
	}
	bustest.SameAsLog(t, c.JetStream(), b)
}
