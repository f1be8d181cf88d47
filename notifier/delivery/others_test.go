package delivery

import (
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/projects"
	"payledger/eventstore"
)

// handOver lets another process send. Nobody tells the one before: its requests go on,
// and what it wants to record is refused.
func (p *player) handOver() error {
	stop, unfollow := p.stop, p.unfollow
	p.former = append(p.former, func() error {
		err := stop()
		if errors.Is(err, ErrLost) || errors.Is(err, eventstore.ErrClosed) {
			err = nil
		}
		return errors.Join(err, unfollow())
	})
	p.files++
	if err := p.follow(); err != nil {
		return err
	}
	p.start()
	return nil
}

// TestForwardOnlyOnSeveralNodes plays scripts in which one node after the other sends,
// without a word to the one before.
func TestForwardOnlyOnSeveralNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("plays so much that the race detector itself may give up")
	}
	t.Parallel()
	if f := flag.Lookup("rapid.checks"); os.Getenv("PAYLEDGER_LONG") == "" && f.Value.String() == f.DefValue {
		if err := f.Value.Set("15"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		steps := script(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(10, 200).Draw(rt, "steps"))
		for i := range steps {
			switch steps[i].What {
			case "restart", "lose views", "older views", "set clock":
				steps[i].What = "hand over"
			}
		}
		if faults := playWith(t, true, steps, nil); len(faults) > 0 {
			rt.Fatalf("%v\nafter %+v", faults, steps)
		}
	})
}

// TestOthersRequestsAreWaitedFor: what another sender had begun is not begun again before
// its request is over, and other payments do not wait for that.
func TestOthersRequestsAreWaitedFor(t *testing.T) {
	t.Parallel()
	engine(t, func(w *world) { w.shared = true }, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", late, 1)
		time.Sleep(requestTime) // the first one has nobody to wait for, and waits all the same
		n := len(w.net.seen())
		w.paid()
		w.spread(t)
		time.Sleep(time.Second) // under way
		if err := w.crash(); err != nil {
			t.Fatal(err)
		}
		w.net.set(a, fine)
		began := time.Now()
		w.start(t)
		w.paid()
		w.spread(t)
		time.Sleep(time.Minute)
		seen := w.net.seen()[n+1:]
		if len(seen) != 2 || seen[0].at.Sub(began) > time.Second || seen[1].at.Sub(began) < requestTime || seen[1].at.Sub(began) > requestTime+time.Second {
			t.Errorf("sent %+v, after %v", seen, began)
		}
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryDelivered: 3}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestStopWithoutAConfirmation: the nodes of a cluster that are stopped together decide nothing
// any more.
func TestStopWithoutAConfirmation(t *testing.T) {
	t.Parallel()
	engine(t, func(w *world) { w.shared = true }, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", fine, 1)
		time.Sleep(2 * requestTime)
		w.paid()
		w.store.Lose(eventstore.ErrUnconfirmed)
		w.spread(t)
		time.Sleep(time.Second)
		if err := w.stop(); err != nil {
			t.Errorf("the end of sending: %v", err)
		}
		w.store.Lose(nil)
		w.start(t)
		time.Sleep(2 * requestTime)
		if s := w.states(t, a); s[domain.DeliveryDelivered] != 2 {
			t.Errorf("states %v", s)
		}
	})
}

// TestTheLogOfAnEarlierVersion says nothing of what was sent: of each payment the newest
// event is sent, or listed; what is listed cannot be sent behind the newest.
func TestTheLogOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.net.keep = true
		a := w.endpoint("a")
		w.paid()
		time.Sleep(domain.KeepDeliveries + 48*time.Hour) // that one is left alone
		for range 4 * 64 {                               // so many that the old is forgotten
			w.payment()
		}
		w.paid()
		refunded, pending := w.paid(), w.paid()
		w.advance(pending, 0)
		w.advance(refunded, 0)
		w.advance(refunded, 0) // the first refund fails
		w.advance(refunded, 0)
		w.advance(refunded, 2) // the second succeeds
		w.start(t)
		time.Sleep(time.Hour)
		got := make(map[domain.Kind]int)
		for _, r := range w.net.seen() {
			got[r.kind]++
		}
		want := map[domain.Kind]int{domain.KindPaymentCreated: 4 * 64, domain.KindPaymentPaid: 1, domain.KindRefundSucceeded: 1, domain.KindRefundPending: 1}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		all := w.deliveries(t, domain.DeliveryFilter{Endpoint: a, Payment: refunded})
		newest := domain.ID{}
		for _, d := range all {
			if d.State == domain.DeliveryDelivered {
				newest = d.EventID
			}
		}
		for _, d := range all {
			if d.EventID == newest {
				continue
			}
			_, err := w.lanes.Resend(t.Context(), testProject, a, d.EventID)
			if r := refusal(err); r.Code != domain.DeliverySupersededCode || r.EventID != newest {
				t.Errorf("resending %s, which is %s: %v", d.Type, d.State, err)
			}
		}
		if s := w.states(t, a); s[domain.DeliveryUnconfirmed] != 3 || s[domain.DeliveryPending] != 0 {
			t.Errorf("states %v", s)
		}
		if h := w.health(t, a); h.Undelivered != 3 || h.Pending != 0 {
			t.Errorf("health %+v", h)
		}
		if err := errors.Join(w.end(), w.close()); err != nil {
			t.Error(err)
		}
		for _, fault := range w.net.found() {
			t.Error(fault)
		}
	})
}

// TestTheLogOfAnEarlierVersionHasSeveralEndpoints: what is too old is left alone however many
// endpoints it would be for.
func TestTheLogOfAnEarlierVersionHasSeveralEndpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.net.keep = true
		for n := range 6 {
			w.endpoint(string(rune('a' + n)))
		}
		for range 2 {
			time.Sleep(domain.KeepDeliveries + 48*time.Hour)
			for range 2 * 64 {
				w.payment()
			}
		}
		w.start(t)
		time.Sleep(time.Hour)
		if n := len(w.net.seen()); n != 6*2*64 {
			t.Errorf("%d requests, want those of the newer payments, %d", n, 6*2*64)
		}
		if err := errors.Join(w.end(), w.close()); err != nil {
			t.Error(err)
		}
	})
}

// TestTheFirstSenderFindsAnEmptyLog: what happens from then on is known, so after a crash
// an outcome that was under way is sent again although a later event has come.
func TestTheFirstSenderFindsAnEmptyLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newEmptyWorld(t)
		w.net.keep = true
		w.start(t)
		synctest.Wait()
		w.project(projects.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()})
		a := w.endpoint("a", domain.KindPaymentPaid, domain.KindRefundPending)
		w.net.set(a, late)
		id := w.paid()
		w.spread(t)
		time.Sleep(time.Second) // under way
		w.advance(id, 0)
		if err := w.crash(); err != nil {
			t.Fatal(err)
		}
		w.net.set(a, fine)
		w.start(t)
		time.Sleep(time.Minute)
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryDelivered: 2}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
		if err := errors.Join(w.end(), w.close()); err != nil {
			t.Error(err)
		}
		for _, fault := range w.net.found() {
			t.Error(fault)
		}
	})
}

// TestASenderWaitsForTheLog: a log that is busy when a sender begins, as while nodes change
// their roles, ends nothing.
func TestASenderWaitsForTheLog(t *testing.T) {
	t.Parallel()
	engine(t, func(w *world) { w.busy.Store(true) }, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", fine, 1)
		time.Sleep(time.Minute)
		if n := len(w.net.seen()); n != 0 {
			t.Errorf("%d requests were made without the log", n)
		}
		w.busy.Store(false)
		time.Sleep(time.Minute)
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryDelivered: 1}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestWhoIsToldOfWhat: an endpoint is told of what it takes and what comes after it.
func TestWhoIsToldOfWhat(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		refunds, off, gone := w.endpoint("refunds", domain.KindRefundPending, domain.KindRefundFailed), w.endpoint("off", domain.KindPaymentPaid), w.endpoint("gone")
		w.project(projects.DisableEndpoint{At: 1, EndpointID: off, Reason: projects.DisabledByRequest})
		w.paid()
		w.spread(t)
		time.Sleep(time.Minute)
		w.project(projects.RemoveEndpoint{EndpointID: gone})
		id := w.paid()
		late := w.endpoint("late", domain.KindPaymentPaid, domain.KindRefundPending)
		w.advance(id, 0)
		w.spread(t)
		time.Sleep(time.Minute) // the refund's first state is told before the next
		w.advance(id, 0)
		w.paid()
		w.spread(t)
		time.Sleep(time.Minute)
		for endpoint, want := range map[string]map[domain.DeliveryState]int{
			refunds: {domain.DeliveryDelivered: 2},
			off:     {domain.DeliveryHeld: 3},
			gone:    {domain.DeliveryDelivered: 1, domain.DeliverySuperseded: 2},
			late:    {domain.DeliveryDelivered: 2},
		} {
			if diff := cmp.Diff(want, w.states(t, endpoint)); diff != "" {
				t.Errorf("%s: %s", endpoint, diff)
			}
		}
	})
}

// TestStrangeEntriesAreHarmless: an event that names an endpoint nobody knows, or what
// cannot have happened, changes nothing and is said once.
func TestStrangeEntriesAreHarmless(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	engine(t, func(w *world) { w.log = zerolog.New(zerolog.SyncWriter(&log)) }, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", fine, 1)
		time.Sleep(time.Second)
		rows := w.views.Deliveries()
		before, state := rows.Endpoint(a), rows.State()
		entries := []deliveries.Entry{{Payment: w.ids.Next(), Sequence: 7, What: deliveries.Begun}, {Payment: w.ids.Next(), Sequence: 7, What: deliveries.Delivered}}
		for _, endpoint := range []string{"we_nobody", a} {
			if err := w.lanes.ask(t.Context(), endpoint, entries[:1]...); err != nil {
				t.Fatal(err)
			}
			if err := w.lanes.ask(t.Context(), endpoint, entries[1:]...); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if after := rows.Endpoint(a); after != before || rows.State() != state {
			t.Errorf("%+v became %+v", before, after)
		}
		if _, known, err := rows.Lane(a, entries[0].Payment); known || err != nil {
			t.Errorf("there is a lane, %v", err)
		}
	})
	if n := strings.Count(log.String(), "an endpoint that never was"); n != 2 {
		t.Errorf("said %d times: %s", n, &log)
	}
}

// TestDisabledWhileAnAttemptIsUnderWay: what an endpoint missed while it was disabled keeps nothing
// later from it, also if the process ended in the middle of an attempt.
func TestDisabledWhileAnAttemptIsUnderWay(t *testing.T) {
	t.Parallel()
	steps := []step{
		{What: "mode", A: 1, B: slices.Index(modes(), silent)},
		{What: "create"},
		{What: "disable", Pause: 3 * time.Second, A: 1},
		{What: "crash", Pause: time.Second},
		{What: "enable", Pause: 2 * time.Minute},
		{What: "advance", Pause: time.Second, B: 1},
	}
	if faults := play(t, steps, nil); len(faults) > 0 {
		t.Error(faults)
	}
}

// TestHeldGivesWayToNothingOlder: an intermediate event whose attempt was under way while what follows
// it was held is not tried again when the endpoint is enabled.
func TestHeldGivesWayToNothingOlder(t *testing.T) {
	t.Parallel()
	steps := []step{
		{What: "mode", B: slices.Index(modes(), silent)},
		{What: "create"},
		{What: "advance", Pause: time.Second, B: 1},
		{What: "disable"},
		{What: "enable"},
	}
	if faults := play(t, steps, nil); len(faults) > 0 {
		t.Error(faults)
	}
}
