package delivery

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/projects"
)

// TestListsPageByPage: every filter gives, page by page of any size, the same
// deliveries as all at once, newest first.
func TestListsPageByPage(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a, b := w.endpoint("a"), w.endpoint("b")
		w.net.set(b, broken)
		for range 7 {
			w.together(t, func() { w.paid() })
			time.Sleep(time.Second)
		}
		var last domain.ID
		w.together(t, func() {
			w.project(projects.DisableEndpoint{EndpointID: b, Reason: projects.DisabledByRequest})
			last = w.paid()
		})
		time.Sleep(2 * time.Minute)
		events := w.deliveries(t, domain.DeliveryFilter{Endpoint: a, Payment: last})
		for _, f := range []struct {
			filter domain.DeliveryFilter
			want   int
		}{
			{domain.DeliveryFilter{Endpoint: a}, 24},
			{domain.DeliveryFilter{Endpoint: b}, 24},
			{domain.DeliveryFilter{Endpoint: b, State: domain.DeliveryHeld}, 10},
			{domain.DeliveryFilter{Endpoint: b, State: domain.DeliverySuperseded}, 14},
			{domain.DeliveryFilter{Endpoint: b, State: domain.DeliveryPending}, 0},
			{domain.DeliveryFilter{Payment: last}, 6},
			{domain.DeliveryFilter{Payment: last, Project: testProject}, 6},
			{domain.DeliveryFilter{Payment: last, Project: "prj_other"}, 0},
			{domain.DeliveryFilter{Payment: last, State: domain.DeliveryHeld}, 3},
			{domain.DeliveryFilter{Event: events[0].EventID}, 2},
			{domain.DeliveryFilter{Event: events[0].EventID, Endpoint: a}, 1},
			{domain.DeliveryFilter{Event: w.ids.Next()}, 0},
			{domain.DeliveryFilter{Endpoint: "we_other"}, 0},
			{domain.DeliveryFilter{}, 0},
		} {
			f.filter.Limit = 1000
			all := w.deliveries(t, f.filter)
			if len(all) != f.want {
				t.Errorf("%+v: %d deliveries, want %d", f.filter, len(all), f.want)
			}
			if !slices.IsSortedFunc(all, func(a, b domain.DeliveryObject) int { return b.EventID.Compare(a.EventID) }) {
				t.Errorf("%+v: not newest first", f.filter)
			}
			for f.filter.Limit = 1; f.filter.Limit < 9; f.filter.Limit += 3 {
				if diff := cmp.Diff(all, w.deliveries(t, f.filter)); diff != "" {
					t.Errorf("%+v:\n%s", f.filter, diff)
				}
			}
		}
		_, err := w.lanes.Deliveries(t.Context(), domain.DeliveryFilter{Endpoint: a, After: "nonsense"})
		if refusal(err).Code != domain.InvalidCursor {
			t.Errorf("a cursor of nobody's: %v", err)
		}
	})
}

// delivered is a payment that was created and assigned to a route, each event of
// which was delivered, and the second one.
func (w *world) delivered(t *testing.T) (id, assigned domain.ID) {
	t.Helper()
	id = w.payment()
	w.spread(t)
	time.Sleep(time.Second)
	assigned = w.route(id)
	w.spread(t)
	time.Sleep(time.Second)
	return id, assigned
}

// TestResend: the newest can be sent again, or the last one begun; the others
// are refused with the one that can be.
func TestResend(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a")
		id, assigned := w.delivered(t)
		resend := func(event domain.ID, want domain.Refusal) {
			t.Helper()
			d, err := w.lanes.Resend(t.Context(), testProject, a, event)
			if got := refusal(err); got != want {
				t.Errorf("resend: %+v, %v; want %+v", d, err, want)
			}
			if want == (domain.Refusal{}) && (err != nil || d.State != domain.DeliveryPending) {
				t.Errorf("resend: %+v, %v", d, err)
			}
		}
		created := w.deliveries(t, domain.DeliveryFilter{Endpoint: a})[1].EventID
		resend(created, domain.Refusal{Code: domain.DeliverySupersededCode, EventID: assigned})
		w.net.set(a, late) // still under way when the answers are looked at
		resend(assigned, domain.Refusal{})
		resend(assigned, domain.Refusal{}) // twice at a time is once
		time.Sleep(20 * time.Second)
		w.net.set(a, silent)
		paid := w.signal(id, domain.OutcomePaid, nil)
		w.spread(t)
		resend(assigned, domain.Refusal{Code: domain.DeliverySupersededCode, EventID: paid})
		time.Sleep(time.Second)
		resend(paid, domain.Refusal{}) // it is under way: when it fails it is sent at once, and after the schedule's wait
		time.Sleep(20 * time.Second)
		w.net.set(a, fine)
		time.Sleep(time.Minute)
		resend(assigned, domain.Refusal{Code: domain.DeliverySupersededCode, EventID: paid})
		resend(w.ids.Next(), domain.Refusal{Code: domain.DeliveryNotFound})
		time.Sleep(time.Second)
		var got []uint64
		for _, r := range w.net.seen() {
			got = append(got, r.sequence)
		}
		if diff := cmp.Diff([]uint64{1, 2, 2, 3, 3, 3}, got); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}

		// Held, it is the newest; what was begun before can be asked for too,
		// as it tells an outcome.
		w.project(projects.DisableEndpoint{EndpointID: a, Reason: projects.DisabledByRequest})
		w.advance(id, 2)
		w.spread(t)
		time.Sleep(time.Minute)
		resend(paid, domain.Refusal{Code: domain.WebhookEndpointDisabledCode})
		w.project(projects.EnableEndpoint{EndpointID: a})
		held := w.deliveries(t, domain.DeliveryFilter{Endpoint: a, State: domain.DeliveryHeld})
		w.net.set(a, late)
		resend(paid, domain.Refusal{})
		resend(created, domain.Refusal{Code: domain.DeliverySupersededCode, EventID: held[0].EventID})
		resend(held[0].EventID, domain.Refusal{})
		_, err := w.lanes.Resend(t.Context(), "prj_other", a, paid)
		if refusal(err).Code != domain.WebhookEndpointNotFound {
			t.Errorf("by another project: %v", err)
		}
		time.Sleep(time.Second)
	})
}

// TestPrune: after 30 days nothing is listed, and a day later the marks of
// the lanes are gone; what happened to either since counts.
func TestPrune(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	engine(t, nil, func(t *testing.T, w *world) {
		a, b := w.endpoint("a"), w.endpoint("b")
		w.project(projects.ChangeEndpoint{EndpointID: b, URL: "https://127.0.0.1/", Kinds: domain.Kinds()})
		for range 400 {
			w.paid() // more than one step of pruning
		}
		late := w.paid()
		w.spread(t)
		time.Sleep(29 * day)
		if s := w.states(t, a); s[domain.DeliveryDelivered] != 401 || s[domain.DeliverySuperseded] != 802 {
			t.Errorf("after 29 days: %v", s)
		}
		w.advance(late, 0)
		w.spread(t)
		time.Sleep(day + 2*time.Hour)
		if n := len(w.deliveries(t, domain.DeliveryFilter{Endpoint: a})); n != 1 {
			t.Errorf("after 30 days %d deliveries are listed, want that of the refund", n)
		}
		if h := w.health(t, b); h.Undelivered != 1 {
			t.Errorf("health %+v, want the refund", h)
		}
		lanes := func() (n int) {
			err := w.views.Snapshot(t.Context(), func(tx *bbolt.Tx) error {
				n = tx.Bucket([]byte("webhook_lanes")).Inspect().KeyN
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := lanes(); n != 802 {
			t.Errorf("after 30 days %d lanes are known, want 802", n)
		}
		time.Sleep(day)
		if n := lanes(); n != 2 {
			t.Errorf("after 31 days %d lanes are known, want 2", n)
		}
		// What is forgotten can be recovered from the log, once.
		before := len(w.net.seen())
		n, err := w.lanes.RecoverSince(t.Context(), testProject, a, 0)
		if err != nil || n != 400 {
			t.Errorf("recovered %d, %v; want 400", n, err)
		}
		time.Sleep(time.Minute)
		for _, r := range w.net.seen()[before:] {
			if r.kind != domain.KindPaymentPaid {
				t.Errorf("recovered: %s", r.kind)
			}
		}
		if n, err := w.lanes.RecoverSince(t.Context(), testProject, a, 0); err != nil || n != 0 {
			t.Errorf("recovered %d again, %v", n, err)
		}
	})
}

// TestResendWithoutLane: the lane was forgotten and its delivery not yet; the
// log says what is newest.
func TestResendWithoutLane(t *testing.T) {
	t.Parallel()
	engine(t, nil, func(t *testing.T, w *world) {
		a := w.endpoint("a")
		id, assigned := w.delivered(t)
		config := w.config()
		config.Rows = forgetful{w.views.Deliveries(), id}
		lanes := New(config)
		created := w.deliveries(t, domain.DeliveryFilter{Endpoint: a})[1].EventID
		_, err := lanes.Resend(t.Context(), testProject, a, created)
		if got := refusal(err); got != (domain.Refusal{Code: domain.DeliverySupersededCode, EventID: assigned}) {
			t.Errorf("the older one: %v", err)
		}
		w.net.set(a, late) // still under way when the answer is looked at
		if d, err := lanes.Resend(t.Context(), testProject, a, assigned); err != nil || d.State != domain.DeliveryPending {
			t.Errorf("the newest: %+v, %v", d, err)
		}
		time.Sleep(time.Second)
		if n := len(w.net.seen()); n != 3 {
			t.Errorf("%d requests", n)
		}
	})
}

// forgetful are rows without the lane of a payment.
type forgetful struct {
	Rows
	of domain.ID
}

func (f forgetful) Lane(endpoint string, payment domain.ID) (l deliveries.Lane, known bool, err error) {
	if payment == f.of {
		return l, false, nil
	}
	return f.Rows.Lane(endpoint, payment)
}

// TestManyWaiting: the window into those due loses nobody.
func TestManyWaiting(t *testing.T) {
	if testing.Short() {
		t.Skip("plays so much that the race detector itself may give up")
	}
	t.Parallel()
	const many = 5*windowSize + 3
	set := func(w *world) { w.limits = Limits{Concurrency: 64, Rate: 1e6, Burst: 1e6} }
	engine(t, set, func(t *testing.T, w *world) {
		a := w.paidTo(t, "a", silent, many)
		time.Sleep(3 * time.Hour) // the breaker is open, and some wait for their second try
		to := w.sender().known(a)
		to.mu.Lock()
		n := len(to.window.keys)
		to.mu.Unlock()
		if n > 2*windowSize {
			t.Errorf("%d keys are in memory", n)
		}
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		w.net.set(a, fine)
		w.start(t)
		for range many {
			w.paid() // new ones come meanwhile
		}
		w.spread(t)
		time.Sleep(48 * time.Hour)
		if diff := cmp.Diff(map[domain.DeliveryState]int{domain.DeliveryDelivered: 2 * many}, w.states(t, a)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	engine(t, nil, func(t *testing.T, w *world) {
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
		w.metrics = registry
		for range 2 { // again after the end
			w.start(t)
			time.Sleep(time.Second)
			if len(w.net.seen()) > 0 {
				break
			}
			a := w.endpoint("a", domain.KindPaymentPaid)
			w.paid()
			w.spread(t)
			time.Sleep(time.Second)
			w.net.set(a, gone)
			w.paid()
			w.spread(t)
			time.Sleep(time.Hour)
			want := `
# HELP payledger_webhook_deliveries_undelivered Notifications given up, parked, held or unconfirmed: the dead letters.
# TYPE payledger_webhook_deliveries_undelivered gauge
payledger_webhook_deliveries_undelivered 1
# HELP payledger_webhook_endpoints_disabled_total Endpoints that were disabled because they failed or answered 410, by reason.
# TYPE payledger_webhook_endpoints_disabled_total counter
payledger_webhook_endpoints_disabled_total{reason="failing"} 0
payledger_webhook_endpoints_disabled_total{reason="gone"} 1
`
			err := testutil.GatherAndCompare(registry, strings.NewReader(want), "payledger_webhook_deliveries_undelivered", "payledger_webhook_endpoints_disabled_total")
			if err != nil {
				t.Error(err)
			}
			if n := testutil.ToFloat64(w.sender().metrics.attempts.WithLabelValues(classDelivered)); n != 1 {
				t.Errorf("%v attempts delivered", n)
			}
			problems, err := testutil.GatherAndLint(registry)
			if err != nil || len(problems) > 0 {
				t.Errorf("lint: %v, %v", problems, err)
			}
			if err := w.end(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
