package delivery

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/notifier/webhook"
)

func TestGoneDisablesAtOnce(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a", domain.FinalKinds()...)
		w.net.set(a, gone)
		id := w.paid()
		w.advance(id, 2)
		w.advance(id, 2)
		w.spread(t)
		time.Sleep(time.Minute)
		w.paid()
		w.spread(t)
		time.Sleep(time.Hour)
		if seen := w.net.seen(); len(seen) != 1 {
			t.Errorf("%d requests, want 1", len(seen))
		}
		if e, _ := w.state().Endpoint(a); e.Disabled != projects.DisabledGone {
			t.Errorf("the endpoint is %q", e.Disabled)
		}
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryHeld: 3}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
		_, err := w.lanes.Test(t.Context(), testProject, a)
		if code := refusal(err).Code; code != domain.WebhookEndpointDisabledCode {
			t.Errorf("a test of it: %v", err)
		}
		// Let in again, it gets what it asks for, and only that.
		w.net.set(a, fine)
		w.project(projects.EnableEndpoint{EndpointID: a})
		time.Sleep(time.Hour)
		n, err := w.lanes.RecoverSince(t.Context(), testProject, a, 0)
		if err != nil || n != 2 {
			t.Errorf("recovered %d, %v; want the newest of 2 payments", n, err)
		}
		time.Sleep(time.Hour)
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryHeld: 1, domain.DeliveryDelivered: 2}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
		if n, err := w.lanes.RecoverSince(t.Context(), testProject, a, 0); err != nil || n != 0 {
			t.Errorf("recovered %d again, %v", n, err)
		}
	})
}

func refusal(err error) domain.Refusal {
	if r, ok := errors.AsType[*domain.Refusal](err); ok {
		return *r
	}
	return domain.Refusal{}
}

// TestFailingForDaysDisables, unless the program was stopped meanwhile.
func TestFailingForDaysDisables(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a", domain.KindPaymentPaid)
		b := w.endpoint("b", domain.KindPaymentPaid)
		w.net.set(a, silent)
		disabled := func() projects.DisabledReason {
			t.Helper()
			if e, _ := w.state().Endpoint(b); e.Disabled != "" {
				t.Fatalf("%s is disabled", b)
			}
			e, _ := w.state().Endpoint(a)
			return e.Disabled
		}
		day := func() {
			for range 24 {
				w.paid()
				w.spread(t)
				time.Sleep(time.Hour)
			}
		}
		day()
		day()
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * 24 * time.Hour)
		w.start(t)
		day()
		day()
		if why := disabled(); why != "" {
			t.Fatalf("disabled after four days: %s", why)
		}
		day()
		day()
		if why := disabled(); why != projects.DisabledFailing {
			t.Fatalf("after six days: %q", why)
		}
		if s := w.states(t, a); s[domain.DeliveryPending] != 0 || s[domain.DeliveryHeld] == 0 {
			t.Errorf("states %v", s)
		}
		if h := w.health(t, a); h.FailingSince != nil || h.OpenUntil != nil {
			t.Errorf("health %+v", h)
		}
	})
}

// TestNothingFailsThatGetsNothing: an endpoint that was disabled or removed does not fail, also when
// an attempt that was under way ends afterwards, and makes no more events.
func TestNothingFailsThatGetsNothing(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]mode{"disabled": leaving, "removed": silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine(t, nil, func(t *testing.T, w *world) {
				a := w.paidTo(t, "a", m, 1)
				time.Sleep(2 * time.Second)
				w.paid()
				w.spread(t)
				time.Sleep(14 * time.Second) // the first attempt has failed, and the second has not
				if m == silent {
					w.project(projects.RemoveEndpoint{EndpointID: a})
				}
				time.Sleep(time.Minute)
				state := w.views.Deliveries().State()
				time.Sleep(24 * time.Hour)
				if h := w.health(t, a); h.FailingSince != nil {
					t.Errorf("it fails since %v", h.FailingSince)
				}
				if later := w.views.Deliveries().State(); later != state {
					t.Errorf("there were events: %+v became %+v", state, later)
				}
			})
		})
	}
}

// TestAnotherURLIsNotDisabled by the end of an attempt with the one before.
func TestAnotherURLIsNotDisabled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode     mode
		schedule webhook.Schedule
		before   int // attempts, of which the last is under way
	}{
		"gone":    {leaving, webhook.Schedule{0, time.Second}, 1},
		"failing": {silent, webhook.Schedule{0, domain.MaxFailingTime + time.Hour, time.Second}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine(t, func(w *world) { w.schema = c.schedule }, func(t *testing.T, w *world) {
				a := w.paidTo(t, "a", c.mode, 1)
				for len(w.net.seen()) < c.before {
					time.Sleep(5 * time.Second)
				}
				w.project(projects.ChangeEndpoint{EndpointID: a, URL: "https://a.example/other", Kinds: []domain.Kind{domain.KindPaymentPaid}})
				w.net.set(a, fine)
				time.Sleep(time.Minute)
				if e, _ := w.state().Endpoint(a); e.Disabled != "" {
					t.Errorf("it is disabled: %s", e.Disabled)
				}
				d := w.deliveries(t, domain.DeliveryFilter{Endpoint: a})[0]
				if d.State != domain.DeliveryDelivered || len(d.Attempts) != c.before+1 {
					t.Errorf("%+v", d)
				}
			})
		})
	}
}

// TestFailingSinceOutlivesRestarts: a quiet server that is stopped or killed
// again and again counts the days of an endpoint that fails all the same, and
// tells the same instant all the time.
func TestFailingSinceOutlivesRestarts(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", broken, 1)
		time.Sleep(time.Second)
		since := w.health(t, a).FailingSince
		if since == nil {
			t.Fatal("it does not fail")
		}
		for n := range 24 { // five hours each
			if h := w.health(t, a); h.FailingSince == nil || *h.FailingSince != *since {
				t.Fatalf("failing since %v after %d restarts, want %v", h.FailingSince, n, since)
			} else if f := h.LastFailure; f == nil || f.Status != 500 {
				t.Fatalf("last failure %+v after %d restarts", f, n)
			}
			time.Sleep(5 * time.Hour)
			end := w.end
			if n%2 == 1 {
				end = w.crash
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
			w.start(t)
			if n%4 == 0 {
				w.paid() // one that is given up later is followed by another
				w.spread(t)
				time.Sleep(time.Minute)
			}
		}
		w.paid()
		w.spread(t)
		time.Sleep(time.Hour)
		if e, _ := w.state().Endpoint(a); e.Disabled != projects.DisabledFailing {
			t.Errorf("after five days of failing it is %q: %+v", e.Disabled, w.health(t, a))
		}
	})
}

// TestRemovedEndpointsHaveNoDeadLetters: nobody can send them any more.
func TestRemovedEndpointsHaveNoDeadLetters(t *testing.T) {
	t.Parallel()
	engine(t, func(w *world) { w.schema = webhook.Schedule{0} }, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", broken, 3)
		time.Sleep(time.Minute)
		if pending, undelivered := w.lanes.Open(); pending != 0 || undelivered != 3 {
			t.Errorf("%d pending, %d undelivered; want 3", pending, undelivered)
		}
		w.project(projects.RemoveEndpoint{EndpointID: a})
		w.spread(t)
		if pending, undelivered := w.lanes.Open(); pending != 0 || undelivered != 0 {
			t.Errorf("%d pending, %d undelivered of a removed endpoint", pending, undelivered)
		}
	})
}

// TestBreaker: a failing endpoint is left alone but for probes, during which
// what waits loses no tries; then all comes.
func TestBreaker(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", silent, 60)
		time.Sleep(time.Second)
		if n := len(w.net.seen()); n != 16 {
			t.Errorf("%d requests at once, want 16", n)
		}
		time.Sleep(20 * time.Second)
		if h := w.health(t, a); h.OpenUntil == nil {
			t.Errorf("16 failed and the breaker is closed: %+v", h)
		}
		time.Sleep(6*time.Hour - 21*time.Second)
		n := len(w.net.seen()) - 16
		if n < 20 || n > 40 {
			t.Errorf("%d probes in six hours", n)
		}
		tries := 0
		for _, d := range w.deliveries(t, domain.DeliveryFilter{Endpoint: a}) {
			tries += len(d.Attempts)
		}
		if tries > n+16 {
			t.Errorf("%d tries were used up by %d requests", tries, n+16)
		}
		w.net.set(a, fine)
		time.Sleep(20 * time.Minute) // the longest pause and its jitter
		if h := w.health(t, a); h.OpenUntil != nil || h.FailingSince != nil {
			t.Errorf("health %+v", h)
		}
		if s := w.states(t, a); s[domain.DeliveryDelivered] < 40 {
			t.Errorf("states %v: those without a try have to be delivered", s)
		}
	})
}

// TestBreakerAfterRestart goes on with a probe.
func TestBreakerAfterRestart(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		w.paidTo(t, "a", broken, 40)
		time.Sleep(time.Second)
		before := len(w.net.seen())
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		w.start(t)
		time.Sleep(time.Second)
		if n := len(w.net.seen()) - before; n != 1 {
			t.Errorf("%d requests after the start, want one probe", n)
		}
	})
}

// TestNobodyWaitsForOthers: a silent endpoint delays another by no more than
// the writer's rests.
func TestNobodyWaitsForOthers(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a, b := w.endpoint("a"), w.endpoint("b")
		w.net.set(a, silent)
		for range 100 {
			w.paid()
		}
		w.spread(t)
		at := time.Now()
		time.Sleep(time.Second)
		n := 0
		for _, r := range w.net.seen() {
			if r.endpoint == b && r.at.Sub(at) < 500*time.Millisecond {
				n++
			}
		}
		if n != 100 {
			t.Errorf("%d of 100 were sent to the one that answers", n)
		}
	})
}

func TestTokenBucket(t *testing.T) {
	t.Parallel()
	set := func(w *world) { w.limits = Limits{Rate: 10, Burst: 20} }
	engine(t, set, func(t *testing.T, w *world) {
		w.endpoint("a", domain.KindPaymentPaid)
		for range 60 {
			w.paid()
		}
		w.spread(t)
		for _, want := range []int{20, 30, 40, 50, 60, 60} {
			time.Sleep(50 * time.Millisecond) // the writer may rest
			if n := len(w.net.seen()); n < want || n > want+1 {
				t.Errorf("%d requests, want %d", n, want)
			}
			time.Sleep(950 * time.Millisecond)
		}
	})
}

func TestParked(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a", domain.KindPaymentPaid)
		w.project(projects.ChangeEndpoint{EndpointID: a, URL: "https://127.0.0.1/hooks", Kinds: []domain.Kind{domain.KindPaymentPaid}})
		for range 20 {
			w.paid()
		}
		w.spread(t)
		time.Sleep(time.Second)
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryParked: 20}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
		if h := w.health(t, a); h.OpenUntil != nil || h.FailingSince != nil || h.Undelivered != 20 {
			t.Errorf("health %+v", h)
		}
	})
}

// TestDisabledRemovedUnsubscribed: what waits becomes held or is cancelled,
// also while nothing is due, and also when there is much of it.
func TestDisabledRemovedUnsubscribed(t *testing.T) {
	t.Parallel()
	const many = 2*maxAtOnce + 7
	for name, stop := range map[string]struct {
		cmd  func(id string) projects.ProjectCommand
		want domain.DeliveryState
	}{
		"disabled": {func(id string) projects.ProjectCommand {
			return projects.DisableEndpoint{EndpointID: id, Reason: projects.DisabledByRequest}
		}, domain.DeliveryHeld},
		"removed": {func(id string) projects.ProjectCommand { return projects.RemoveEndpoint{EndpointID: id} }, domain.DeliveryCancelled},
		"unsubscribed": {func(id string) projects.ProjectCommand {
			return projects.ChangeEndpoint{EndpointID: id, URL: "https://a.example/hooks", Kinds: []domain.Kind{domain.KindPaymentFailed}}
		}, domain.DeliveryCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			engine(t, nil, func(t *testing.T, w *world) {
				a := w.paidTo(t, "a", broken, many)
				time.Sleep(time.Second)
				w.project(stop.cmd(a))
				before := len(w.net.seen())
				time.Sleep(40 * time.Minute)
				if diff := cmp.Diff(map[domain.DeliveryState]int{stop.want: many}, w.states(t, a)); diff != "" {
					t.Error(diff)
				}
				if n := len(w.net.seen()) - before; n != 0 {
					t.Errorf("%d requests afterwards", n)
				}
			})
		})
	}
}
