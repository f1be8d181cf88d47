package delivery

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/webhook"
)

// engine runs a test on a virtual clock with lanes that send.
func engine(t *testing.T, set func(w *world), fn func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.net.keep = true
		if set != nil {
			set(w)
		}
		w.start(t)
		synctest.Wait() // until Run is at work
		defer func() {
			if err := errors.Join(w.end(), w.close()); err != nil {
				t.Error(err)
			}
			if faults := w.net.found(); len(faults) > 0 {
				t.Error(faults)
			}
		}()
		fn(t, w)
	})
}

func (w *world) spread(t *testing.T) {
	t.Helper()
	if err := w.fanOut(); err != nil {
		t.Fatal(err)
	}
}

// paidTo adds an endpoint for payments that are paid, whose receiver answers in
// a mode, and hands over n of them.
func (w *world) paidTo(t *testing.T, name string, m mode, n int) (endpoint string) {
	t.Helper()
	endpoint = w.endpoint(name, domain.KindPaymentPaid)
	w.net.set(endpoint, m)
	for range n {
		w.paid()
	}
	w.spread(t)
	return endpoint
}

// paid makes a payment that is paid.
func (w *world) paid() domain.ID {
	id := w.payment()
	w.route(id)
	w.signal(id, domain.OutcomePaid, nil)
	return id
}

func (w *world) deliveries(t *testing.T, f domain.DeliveryFilter) []domain.DeliveryObject {
	t.Helper()
	all, err := w.list(f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (w *world) states(t *testing.T, endpoint string) map[domain.DeliveryState]int {
	t.Helper()
	states := make(map[domain.DeliveryState]int)
	for _, d := range w.deliveries(t, domain.DeliveryFilter{Endpoint: endpoint}) {
		states[d.State]++
	}
	return states
}

func (w *world) health(t *testing.T, endpoint string) domain.EndpointHealth {
	t.Helper()
	h, err := w.lanes.Health(t.Context(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// recorded is how many events there are of what senders did.
func (w *world) recorded(t *testing.T) (n int) {
	t.Helper()
	for _, err := range w.ledger.Store.Load(t.Context(), eventstore.DeliveriesStream()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestAtOnce: with an endpoint that nothing waits for, one event begins the attempt with
// the newest event of a payment.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a")
		w.together(t, func() { w.route(w.payment()) })
		time.Sleep(time.Minute) // the endpoint is known now
		w.net.set(a, late)
		before := w.recorded(t)
		w.together(t, func() {
			id := w.payment()
			w.route(id)
			w.signal(id, domain.OutcomePaid, nil)
		})
		time.Sleep(time.Second)
		if n := len(w.net.seen()); n != 2 || w.recorded(t)-before != 1 {
			t.Errorf("%d requests in all and %d events for the second, want 2 and 1", n, w.recorded(t)-before)
		}
		w.net.set(a, fine)
		time.Sleep(time.Minute)
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryDelivered: 2, domain.DeliverySuperseded: 3}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestIdleEndpointsTakeNothing: after a restart only endpoints with something queued are served, and
// others from their next notification on.
func TestIdleEndpointsTakeNothing(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		w.paidTo(t, "a", fine, 1)
		b := w.endpoint("b", domain.KindPaymentPaid)
		time.Sleep(time.Minute)
		w.project(projects.RemoveEndpoint{EndpointID: b})
		w.together(t, func() {})
		if n := len(w.sender().all()); n != 0 {
			t.Errorf("%d endpoints are served, and nothing is queued", n)
		}
		before := len(w.net.seen())
		w.paid()
		w.spread(t)
		time.Sleep(time.Second)
		if n := len(w.net.seen()) - before; n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

// sameTry: a try waits for the next commit, and how long that is depends on what was
// ready at the same time.
func sameTry(a, b time.Duration) bool { return (a - b).Abs() < time.Second }

// TestSchedule: twelve tries with the waits of the schedule and jitter, the
// same bytes each time; then the notification is given up and can be resent.
func TestSchedule(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", broken, 1)
		began := time.Now()
		time.Sleep(100 * time.Hour)
		var got []time.Duration
		for _, r := range w.net.seen() {
			got = append(got, r.at.Sub(began))
			if n := fmt.Sprint(len(got)); r.header.Get(webhook.HeaderAttempt) != n || r.body != w.net.seen()[0].body {
				t.Errorf("attempt %s: headers %v, body %s", n, r.header, r.body)
			}
		}
		var want []time.Duration
		at := time.Duration(0)
		for _, wait := range webhook.DefaultSchedule() {
			at += wait + wait/8 // half the jitter
			want = append(want, at)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(sameTry)); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		all := w.deliveries(t, domain.DeliveryFilter{Endpoint: a, State: domain.DeliveryGivenUp})
		if len(all) != 1 || len(all[0].Attempts) != 12 || all[0].NextAttemptAt != nil {
			t.Fatalf("deliveries %+v", all)
		}
		if last := all[0].Attempts[11]; last.Status != 500 || last.Error != "status" || last.Answer != "sorry" {
			t.Errorf("last attempt %+v", last)
		}
		if h := w.health(t, a); h.Undelivered != 1 || h.Pending != 0 || h.FailingSince == nil {
			t.Errorf("health %+v", h)
		}
		w.net.set(a, fine)
		d, err := w.lanes.Resend(t.Context(), testProject, a, all[0].EventID)
		if err != nil || d.State != domain.DeliveryPending || d.NextAttemptAt == nil {
			t.Fatalf("resend: %+v, %v", d, err)
		}
		time.Sleep(time.Hour)
		all = w.deliveries(t, domain.DeliveryFilter{Endpoint: a, Event: d.EventID})
		if len(all) != 1 || all[0].State != domain.DeliveryDelivered || len(all[0].Attempts) != 13 {
			t.Errorf("after the resend: %+v", all)
		}
		if h := w.health(t, a); h != (domain.EndpointHealth{}) {
			t.Errorf("health %+v", h)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		w.paidTo(t, "a", busy, 1)
		time.Sleep(5 * time.Hour)
		seen := w.net.seen()
		wait := func(i int) time.Duration { return seen[i].at.Sub(seen[i-1].at).Round(time.Second) }
		if len(seen) != 3 || wait(1) != 2*time.Hour || wait(2) != 2*time.Hour {
			t.Errorf("%d attempts: %v", len(seen), seen)
		}
	})
}

// TestPaidDoesNotWait behind what came before it and has long to wait.
func TestPaidDoesNotWait(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a")
		w.net.set(a, broken)
		id := w.payment()
		w.route(id)
		w.spread(t)
		time.Sleep(time.Hour) // the next try is in two
		w.net.set(a, fine)
		before := len(w.net.seen())
		at := time.Now()
		w.signal(id, domain.OutcomePaid, nil)
		w.spread(t)
		time.Sleep(time.Second)
		seen := w.net.seen()[before:]
		if len(seen) != 1 || seen[0].kind != domain.KindPaymentPaid || seen[0].at.Sub(at) > 4*minCommitInterval {
			t.Errorf("sent: %+v", seen)
		}
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliverySuperseded: 2, domain.DeliveryDelivered: 1}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestFinalsKeepTheirPlace: a refund waits until the payment's outcome is
// settled, however long that takes.
func TestFinalsKeepTheirPlace(t *testing.T) {
	t.Parallel()
	engine(t, func(w *world) { w.schema = webhook.Schedule{0, time.Minute, time.Hour} }, func(t *testing.T, w *world) {
		a := w.endpoint("a", domain.FinalKinds()...)
		w.net.set(a, broken)
		id := w.paid()
		w.advance(id, 2)
		w.advance(id, 2)
		w.spread(t)
		time.Sleep(3 * time.Hour)
		var got []domain.Kind
		for _, r := range w.net.seen() {
			got = append(got, r.kind)
		}
		paid, refunded := domain.KindPaymentPaid, domain.KindRefundSucceeded
		if diff := cmp.Diff([]domain.Kind{paid, paid, paid, refunded, refunded, refunded}, got); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// TestEndpointTest goes out by itself, whatever waits.
func TestEndpointTest(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a", domain.KindPaymentPaid)
		d, err := w.lanes.Test(t.Context(), testProject, a)
		if err != nil || d.Type != domain.KindEndpointTest || d.PaymentID != nil || d.Sequence != 0 || d.Position != 0 || d.State != domain.DeliveryPending {
			t.Fatalf("test: %+v, %v", d, err)
		}
		time.Sleep(time.Second)
		seen := w.net.seen()
		if len(seen) != 1 || seen[0].event != d.EventID || seen[0].kind != domain.KindEndpointTest {
			t.Errorf("sent: %+v", seen)
		}
		all := w.deliveries(t, domain.DeliveryFilter{Project: testProject, Event: d.EventID})
		if len(all) != 1 || all[0].State != domain.DeliveryDelivered {
			t.Errorf("deliveries: %+v", all)
		}
		if _, err := w.lanes.Resend(t.Context(), testProject, a, d.EventID); err != nil {
			t.Errorf("resend: %v", err)
		}
		_, err = w.lanes.Test(t.Context(), testProject, "we_other")
		if refusal(err).Code != domain.WebhookEndpointNotFound {
			t.Errorf("a test of an unknown endpoint: %v", err)
		}
	})
}

// TestClockSetBack: by an hour, a month and while stopped, the tries come when
// they would have come.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	times := func(set func(t *testing.T, w *world)) (at []time.Duration) {
		engine(t, nil, func(t *testing.T, w *world) {
			a := w.endpoint("a", domain.KindPaymentPaid)
			w.net.set(a, broken)
			w.paid()
			began := time.Now()
			w.spread(t)
			time.Sleep(time.Hour)
			set(t, w)
			time.Sleep(90 * time.Hour)
			for _, r := range w.net.seen() {
				at = append(at, r.at.Sub(began))
			}
		})
		return at
	}
	want := times(func(*testing.T, *world) {})
	if len(want) != 12 {
		t.Fatalf("%d tries", len(want))
	}
	for _, by := range []time.Duration{time.Hour, 30 * 24 * time.Hour, -time.Hour, -30 * 24 * time.Hour} {
		if got := times(func(_ *testing.T, w *world) { w.setBack(by) }); !slices.EqualFunc(got, want, sameTry) {
			t.Errorf("set back by %s: tries at %v, want %v", by, got, want)
		}
	}
	stopped := func(by time.Duration) []time.Duration {
		return times(func(t *testing.T, w *world) {
			if err := w.end(); err != nil {
				t.Fatal(err)
			}
			w.setBack(by)
			w.start(t)
		})
	}
	for _, by := range []time.Duration{time.Hour, 30 * 24 * time.Hour} {
		// The sender knows what time it was when it recorded something last,
		// 16 minutes before it was stopped.
		got := stopped(by)
		for i := range want {
			if i >= len(got) || got[i] < want[i]-time.Second || got[i] > want[i]+time.Hour {
				t.Errorf("set back by %s while stopped: tries at %v, want about %v", by, got, want)
				break
			}
		}
	}
}
