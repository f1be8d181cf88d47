package delivery

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
)

// lose deletes the lane file between two runs.
func (w *world) lose(t *testing.T) {
	t.Helper()
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(w.path); err != nil {
		t.Fatal(err)
	}
	w.start(t)
}

// TestLostFile: what was never delivered is sent, as its payment's newest, or
// listed; what is listed cannot be sent behind the newest, and no second loss
// forgets it.
func TestLostFile(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a")
		w.net.set(a, silent)
		w.paid()
		refunded, pending := w.paid(), w.paid()
		w.advance(pending, 0)
		w.advance(refunded, 0)
		w.advance(refunded, 0) // the first refund fails
		w.advance(refunded, 0)
		w.advance(refunded, 2) // the second succeeds
		w.spread(t)
		time.Sleep(time.Second)
		for range 2 {
			w.lose(t)
			before := len(w.net.seen())
			w.net.set(a, fine)
			for _, d := range w.deliveries(t, domain.DeliveryFilter{Endpoint: a}) {
				t.Errorf("listed before the fan-out: %+v", d)
			}
			w.spread(t)
			time.Sleep(time.Hour)
			got := make(map[domain.Kind]int)
			for _, r := range w.net.seen()[before:] {
				got[r.kind]++
			}
			want := map[domain.Kind]int{domain.KindPaymentPaid: 1, domain.KindRefundSucceeded: 1, domain.KindRefundPending: 1}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			states := map[domain.DeliveryState]int{domain.DeliveryDelivered: 3, domain.DeliveryUnconfirmed: 3}
			if diff := cmp.Diff(states, w.states(t, a)); diff != "" {
				t.Error(diff)
			}
		}
		newest := w.deliveries(t, domain.DeliveryFilter{Endpoint: a, Payment: refunded})
		for _, d := range newest[1:] {
			_, err := w.lanes.Resend(t.Context(), testProject, a, d.EventID)
			if r := refusal(err); r.Code != domain.DeliverySupersededCode || r.EventID != newest[0].EventID {
				t.Errorf("resending %s, which is %s: %v", d.Type, d.State, err)
			}
		}
		if h := w.health(t, a); h.Undelivered != 3 || h.Pending != 0 {
			t.Errorf("health %+v", h)
		}
	})
}

// TestResendWhileLanesAreMadeAnew: an outcome that is listed already is not
// sent, although its payment's newest event was not handed over yet.
func TestResendWhileLanesAreMadeAnew(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a", domain.FinalKinds()...)
		id := w.paid()
		w.advance(id, 0)
		w.advance(id, 2)
		w.spread(t)
		time.Sleep(time.Second)
		newest := w.deliveries(t, domain.DeliveryFilter{Endpoint: a, Payment: id})
		if len(newest) != 2 {
			t.Fatalf("deliveries %+v", newest)
		}
		w.lose(t)
		paid := newest[1]
		err := w.lanes.Enqueue(t.Context(), 3, []Event{{
			Project: testProject, Endpoint: a, Payment: id, ID: paid.EventID, Kind: paid.Type, Sequence: paid.Sequence, Position: 3, Unconfirmed: true,
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.lanes.Resend(t.Context(), testProject, a, paid.EventID)
		if r := refusal(err); r.Code != domain.DeliverySupersededCode || r.EventID != newest[0].EventID {
			t.Errorf("resend: %v", err)
		}
	})
}

// TestLostFileLeavesTheOldAlone: what is older than what is kept of deliveries
// is not sent once more, except on request.
func TestLostFileLeavesTheOldAlone(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a", domain.KindPaymentPaid)
		const old = 4000 // more events than may have been under way at the same time
		for range old {
			w.paid()
		}
		time.Sleep(domain.KeepDeliveries + time.Hour)
		w.paid()
		w.lose(t)
		after, base, err := w.lanes.Start()
		if err != nil || after < 1000 || after > 3*old || base < 3*old {
			t.Errorf("it goes on after %d with base %d, %v", after, base, err)
		}
		if n, err := w.lanes.RecoverSince(t.Context(), testProject, a, 0); err != nil || n != old+1 {
			t.Errorf("recovered %d, %v; want %d", n, err, old+1)
		}
	})
}
