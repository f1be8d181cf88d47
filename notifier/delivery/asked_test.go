package delivery

import (
	"slices"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/webhook"
)

// paused makes an endpoint fail until its circuit breaker has opened for the
// longest time, with so many payments waiting.
func (w *world) paused(t *testing.T, name string, payments int) string {
	t.Helper()
	a := w.endpoint(name, domain.FinalKinds()...)
	w.net.set(a, broken)
	for range payments {
		w.paid()
	}
	w.spread(t)
	time.Sleep(2*time.Hour + time.Minute)
	if w.health(t, a).OpenUntil == nil {
		t.Fatal("the breaker is closed")
	}
	return a
}

// attempts counts them by event.
func (w *world) attempts(t *testing.T, endpoint string) map[domain.ID]int {
	t.Helper()
	n := make(map[domain.ID]int)
	for _, d := range w.deliveries(t, domain.DeliveryFilter{Endpoint: endpoint}) {
		n[d.EventID] = len(d.Attempts)
	}
	return n
}

// asked does what is to send one event now, although the endpoint is paused,
// and checks that it did that and nothing else.
func (w *world) asked(t *testing.T, endpoint string, ask func() (domain.DeliveryObject, error)) domain.ID {
	t.Helper()
	before, sent, open := w.attempts(t, endpoint), len(w.net.seen()), w.health(t, endpoint).OpenUntil
	at := domain.InstantOf(w.now())
	d, err := ask()
	if err != nil || d.NextAttemptAt == nil || *d.NextAttemptAt > at.Add(time.Second) {
		t.Fatalf("%+v, %v; want it to be sent now", d, err)
	}
	time.Sleep(time.Second)
	seen := w.net.seen()[sent:]
	if len(seen) != 1 || seen[0].event != d.EventID {
		t.Fatalf("%d requests: %+v; want one of event %s", len(seen), seen, d.EventID)
	}
	for event, n := range w.attempts(t, endpoint) {
		if event != d.EventID && n != before[event] {
			t.Errorf("event %s had %d attempts and has %d", event, before[event], n)
		}
	}
	if h := w.health(t, endpoint); h.OpenUntil != nil && (open == nil || *h.OpenUntil != *open) {
		t.Errorf("the pause ended at %v and ends at %v", open, h.OpenUntil)
	}
	return d.EventID
}

// TestAskedForIsSent: a test and a resend go out at once while their endpoint
// is paused, and are no probe with anything else.
func TestAskedForIsSent(t *testing.T) {
	t.Parallel()
	short := func(w *world) { w.schema = webhook.Schedule{0, 0, 3 * time.Hour, 3 * time.Hour} }
	engine(t, short, func(t *testing.T, w *world) {
		a := w.paused(t, "a", 30)
		test := func() (domain.DeliveryObject, error) { return w.lanes.Test(t.Context(), testProject, a) }
		first := w.asked(t, a, test)
		for range 3 {
			w.asked(t, a, test)
		}
		resend := func(event domain.ID) func() (domain.DeliveryObject, error) {
			return func() (domain.DeliveryObject, error) { return w.lanes.Resend(t.Context(), testProject, a, event) }
		}
		w.asked(t, a, resend(first))
		waiting := w.deliveries(t, domain.DeliveryFilter{Endpoint: a, State: domain.DeliveryPending})
		w.asked(t, a, resend(waiting[len(waiting)/2].EventID))

		// What succeeds ends the pause.
		w.net.set(a, fine)
		if _, err := test(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if h := w.health(t, a); h.OpenUntil != nil {
			t.Errorf("health %+v", h)
		}
	})
}

// TestAskedForWhileTheDiskIsFull is sent once there is room, although the endpoint is paused.
func TestAskedForWhileTheDiskIsFull(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.paused(t, "a", 30)
		w.net.set(a, silent)
		var last domain.DeliveryObject
		for range maxRequestedUnderWay + 1 {
			var err error
			if last, err = w.lanes.Test(t.Context(), testProject, a); err != nil {
				t.Fatal(err)
			}
		}
		sent := func() bool {
			return slices.ContainsFunc(w.net.seen(), func(r request) bool { return r.event == last.EventID })
		}
		time.Sleep(time.Second)
		w.full.Store(true)
		time.Sleep(2 * domain.AnswerTime) // there is a place for it now
		if sent() {
			t.Error("it was sent, and is not recorded")
		}
		w.full.Store(false)
		time.Sleep(5 * time.Second)
		if !sent() || w.health(t, a).OpenUntil == nil {
			t.Error("it waits for the end of the pause")
		}
	})
}

// TestAskedForDuringItsLastAttempt: what is resent while its last try is under way is tried again at
// once when that fails, also to a paused endpoint, with all tries before it.
func TestAskedForDuringItsLastAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		payments int
		schedule webhook.Schedule
	}{"alone": {1, webhook.Schedule{0, time.Second}}, "paused": {failuresToOpen, webhook.Schedule{0}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine(t, func(w *world) { w.schema = c.schedule }, func(t *testing.T, w *world) {
				a := w.paidTo(t, "a", silent, c.payments)
				event := w.deliveries(t, domain.DeliveryFilter{Endpoint: a})[0].EventID
				resend := func() {
					t.Helper()
					if d, err := w.lanes.Resend(t.Context(), testProject, a, event); err != nil || d.State != domain.DeliveryPending {
						t.Fatalf("%+v, %v", d, err)
					}
				}
				tries := func() (n int) {
					for _, r := range w.net.seen() {
						if r.event == event {
							n++
						}
					}
					return n
				}
				time.Sleep(domain.AnswerTime + 5*time.Second)
				if c.payments > 1 { // all were given up
					resend()
					time.Sleep(time.Second)
				}
				if n := tries(); n != 2 {
					t.Fatalf("%d tries", n)
				}
				resend()
				time.Sleep(domain.AnswerTime)
				if n := tries(); n != 3 {
					t.Errorf("%d tries, want one more when the last one has failed", n)
				}
				time.Sleep(time.Hour)
				if n, want := tries(), 2+len(c.schedule); n != want {
					t.Errorf("%d tries, want %d", n, want)
				}
				if d := w.deliveries(t, domain.DeliveryFilter{Endpoint: a, Event: event})[0]; d.State != domain.DeliveryGivenUp {
					t.Errorf("at last it is %s", d.State)
				}
			})
		})
	}
}

// TestAskedForWhileAllPlacesAreTaken by receivers that do not answer.
func TestAskedForWhileAllPlacesAreTaken(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", silent, 20)
		time.Sleep(time.Second)
		if n := len(w.net.seen()); n != 16 {
			t.Fatalf("%d requests are under way", n)
		}
		var last domain.ID
		for range 3 * maxRequestedUnderWay {
			d, err := w.lanes.Test(t.Context(), testProject, a)
			if err != nil {
				t.Fatal(err)
			}
			last = d.EventID
		}
		time.Sleep(time.Second)
		if n := len(w.net.seen()); n != 16+maxRequestedUnderWay {
			t.Errorf("%d requests are under way, want %d more than 16", n, maxRequestedUnderWay)
		}
		time.Sleep(time.Minute)
		if n := w.attempts(t, a)[last]; n == 0 {
			t.Error("the last one that was asked for was not tried")
		}
	})
}

// TestAskedForWaitsForATokenOnly: a test of a paused endpoint whose token bucket
// is empty goes out with the next token.
func TestAskedForWaitsForATokenOnly(t *testing.T) {
	t.Parallel()
	engine(t, func(w *world) { w.limits = Limits{Rate: 0.1, Burst: 1} }, func(t *testing.T, w *world) {
		a := w.paused(t, "a", 20)
		before := len(w.net.seen())
		for range 2 {
			if _, err := w.lanes.Test(t.Context(), testProject, a); err != nil {
				t.Fatal(err)
			}
		}
		for want := 1; want <= 2; want++ {
			time.Sleep(time.Second)
			if n := len(w.net.seen()) - before; n != want {
				t.Errorf("%d requests, want %d", n, want)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// TestAskedForWaitsItsTurn: what comes before it in its lane goes first, in
// its own time.
func TestAskedForWaitsItsTurn(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a", domain.FinalKinds()...)
		w.net.set(a, broken)
		id := w.paid()
		w.advance(id, 2)
		w.advance(id, 2)
		w.spread(t)
		time.Sleep(time.Hour) // the next try is in two
		all := w.deliveries(t, domain.DeliveryFilter{Endpoint: a, Payment: id})
		if len(all) != 2 {
			t.Fatalf("deliveries %+v", all)
		}
		if all[0].Type != domain.KindRefundSucceeded { // ids of the same millisecond
			all[0] = all[1]
		}
		before := len(w.net.seen())
		d, err := w.lanes.Resend(t.Context(), testProject, a, all[0].EventID)
		if err != nil || d.State != domain.DeliveryPending || d.NextAttemptAt != nil {
			t.Errorf("%+v, %v", d, err)
		}
		time.Sleep(time.Minute)
		if n := len(w.net.seen()) - before; n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestChangeTriesAtOnce: a change of a paused endpoint lets one attempt
// through, and what is sent with it loses none of its tries.
func TestChangeTriesAtOnce(t *testing.T) {
	t.Parallel()
	short := func(w *world) { w.schema = webhook.Schedule{0, 5 * time.Minute} }
	engine(t, short, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", broken, 20)
		time.Sleep(time.Second)
		if w.health(t, a).OpenUntil == nil {
			t.Fatal("the breaker is closed")
		}
		for range 10 {
			before := len(w.net.seen())
			w.change(a)
			time.Sleep(time.Second)
			if n := len(w.net.seen()) - before; n != 1 {
				t.Fatalf("%d requests after the change, want 1", n)
			}
		}
		if s := w.states(t, a); s[domain.DeliveryPending] != 20 {
			t.Errorf("states %v", s)
		}
		w.net.set(a, fine)
		w.change(a)
		time.Sleep(20 * time.Minute)
		if s := w.states(t, a); s[domain.DeliveryDelivered] != 20 {
			t.Errorf("states %v", s)
		}
	})
}

// TestChangeDuringAProbe: the next attempt begins when the probe has failed that went out before the
// change, and costs no try.
func TestChangeDuringAProbe(t *testing.T) {
	t.Parallel()
	engine(t, func(w *world) { w.schema = webhook.Schedule{0, 20 * time.Second} }, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", broken, failuresToOpen)
		time.Sleep(time.Second)
		w.net.set(a, silent)
		for len(w.net.seen()) == failuresToOpen {
			time.Sleep(time.Second)
		}
		w.change(a)
		time.Sleep(domain.AnswerTime)
		if n := len(w.net.seen()) - failuresToOpen; n != 2 {
			t.Fatalf("%d requests, want the probe and the one after the change", n)
		}
		time.Sleep(domain.AnswerTime)
		if s := w.states(t, a); s[domain.DeliveryGivenUp] != 1 {
			t.Errorf("states %v; want the probe alone to be given up", s)
		}
	})
}

// change is what a change of an endpoint does.
func (w *world) change(endpoint string) {
	s := w.sender()
	s.known(endpoint).tryNow(s.clock.now())
}
