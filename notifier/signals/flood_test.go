package signals

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bustest"
)

// flood publishes so many signals on a payment, each under a reference of its
// own.
func (c *court) flood(t *testing.T, p domain.Payment, n int, change func(*domain.Signal)) {
	t.Helper()
	nc := c.conn.NATS()
	inbox := nats.NewInbox()
	for i := range n {
		s := bustest.Paid(p)
		change(&s)
		s.Reference = fmt.Sprint("flood-", p.ID, "-", i)
		m := &nats.Msg{
			Subject: bus.SignalSubject(s.Route, p.Project, p.ID), Data: bustest.Encode(t, s), Header: nats.Header{bus.ReplyHeader: {inbox}},
		}
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func wrongRoute(s *domain.Signal) { s.Route = "bank" }

func lateMoney(s *domain.Signal) { s.Amount-- }

// TestFloodsOfRefusalsAreCounted, and what is beyond the cap is answered.
func TestFloodsOfRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	p := c.Routed(t)
	const all = 2000
	c.flood(t, p, all, wrongRoute)
	s := bustest.Paid(p)
	wrongRoute(&s)
	s.Reference = "one more"
	reply := c.signal(t, p, s)
	if reply.Result != domain.SignalRefused || reply.Reason != domain.ReasonWrongRoute || !reply.Unrecorded || reply.EventID != nil {
		t.Errorf("%+v", reply)
	}
	if reply := c.signal(t, p, bustest.Paid(p)); reply.Result != domain.SignalApplied || reply.Unrecorded {
		t.Errorf("%+v", reply)
	}
	c.drained(t)
	got := c.Payment(t, p.ID)
	if got.Status != domain.Paid || got.Refused != 1600 || len(got.Signals) != domain.MaxRefused+1 {
		t.Errorf("%s, %d refused, %d kept", got.Status, got.Refused, len(got.Signals))
	}
	if n := testutil.ToFloat64(c.enforcer.unrecorded); n != all+1-domain.MaxRefused-4 {
		t.Errorf("%v counted as not recorded", n)
	}
	if n := len(c.Records(t)); n != domain.MaxRefused+4+3 {
		t.Errorf("%d records in the log", n)
	}
}

// TestLateFundsBeyondTheCapAreRecordedOnce: a payment no longer keeps them, but
// their references are claimed.
func TestLateFundsBeyondTheCapAreRecordedOnce(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	p := c.Routed(t)
	const all = 3 * domain.MaxLateFunds
	c.flood(t, p, all, lateMoney)
	c.drained(t)
	c.flood(t, p, all, lateMoney)
	c.drained(t)
	if got := c.Payment(t, p.ID); got.LateFunds != all || len(got.Signals) != domain.MaxLateFunds {
		t.Errorf("%d of late funds, %d kept", got.LateFunds, len(got.Signals))
	}
	s := bustest.Paid(p)
	s.Amount -= 2
	s.Reference = fmt.Sprint("flood-", p.ID, "-", all-1)
	if reply := c.signal(t, p, s); reply.Result != domain.SignalRefused || reply.Reason != domain.ReasonReferenceConflict {
		t.Errorf("%+v", reply)
	}
}

// TestFoldsGoOnWhereTheyWere: the second look at a long stream reads what was
// added alone.
func TestFoldsGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	p := b.Routed(t)
	add := func(n int) {
		for range n {
			s := bustest.Paid(p)
			s.Amount--
			s.Reference = b.IDs.Next().String()
			b.Do(t, p.ID, domain.ApplySignal{Signal: s})
		}
	}
	k := newFolds()
	for _, n := range []int{1, 2 * minFoldRecords, 3, 0, 2 * domain.MaxLateFunds} {
		add(n)
		f, err := k.of(t.Context(), b.Ledger, p.Project, p.ID)
		if err != nil {
			t.Fatal(err)
		}
		want := b.Payment(t, p.ID)
		if f.LateFunds != want.LateFunds || f.Status != want.Status || len(f.Signals) != len(want.Signals) {
			t.Fatalf("%d of late funds, %d kept: want %d, %d", f.LateFunds, len(f.Signals), want.LateFunds, len(want.Signals))
		}
	}
	stream := eventstore.PaymentStream(p.Project, p.ID)
	b.Routed(t)
	add(1)
	k.recent[stream].last.Position++ // another payment's record
	if _, err := k.of(t.Context(), b.Ledger, p.Project, p.ID); err == nil {
		t.Error("went on behind a record that is not the stream's")
	}
	if f, err := k.of(t.Context(), b.Ledger, p.Project, p.ID); err != nil || f.LateFunds != b.Payment(t, p.ID).LateFunds {
		t.Errorf("%d of late funds, %v", f.LateFunds, err)
	}
	// What is kept is bounded.
	for range 3 * maxFolds {
		k.keep(eventstore.PaymentStream(p.Project, b.IDs.Next()), &folded{last: eventstore.Stored{Sequence: minFoldRecords + 1}})
	}
	if n := len(k.recent) + len(k.older); n > 2*maxFolds {
		t.Errorf("%d folds are kept", n)
	}
}

// TestFloodsDelayThemselvesAlone: floods of wrong routes on six payments, of no
// signals at all, and of a payment that has no route yet; then the outcome of
// another payment, and of a flooded one. How long that takes depends on the
// machine and is only logged; that routes and payments take turns is shown by the
// tests of queues.
func TestFloodsDelayThemselvesAlone(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	early := c.Payment(t, c.Create(t, time.Hour))
	c.flood(t, early, 500, func(*domain.Signal) {})
	flooded := make([]domain.Payment, 6)
	for i := range flooded {
		flooded[i] = c.Routed(t)
		c.flood(t, flooded[i], 2000, wrongRoute)
		c.flood(t, flooded[i], 500, lateMoney)
	}
	c.poison(t, 5000, 1000)
	other := c.Routed(t)
	began := time.Now()
	for _, p := range []domain.Payment{other, flooded[0]} {
		s := bustest.Paid(p)
		reply := c.signal(t, p, s)
		if reply.Result != domain.SignalApplied {
			t.Errorf("%+v", reply)
		}
		t.Logf("answered %v after the floods", time.Since(began))
	}
	c.Do(t, early.ID, domain.AssignRoute{Table: domain.SandboxTable()})
	c.drained(t)
}
