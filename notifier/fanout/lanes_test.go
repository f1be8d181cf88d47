package fanout

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/delivery"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/notifiertest"
	"payledger/notifier/webhook"
)

// content answers every request with 200.
type content struct{}

func (content) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
}

// lanes opens the real ones and lets them work until close.
func (s *shop) lanes(t *testing.T, dir string) (l *delivery.Lanes, closeLanes func()) {
	t.Helper()
	secrets, err := webhook.NewSecrets(map[int][32]byte{1: {7}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	sender := webhook.NewSender(webhook.Config{Transport: content{}})
	l, err = delivery.Open(t.Context(), delivery.Config{
		Path: filepath.Join(dir, "lanes.db"), Mark: filepath.Join(dir, "lanes.mark"), LogID: s.LogID,
		Ledger: s.Ledger, Endpoints: s.views, Secrets: secrets, Sender: sender, IDs: s.IDs, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := healthtest.Run(t, l.Run)
	return l, func() {
		t.Helper()
		stop()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		sender.Close()
	}
}

// listed is every delivery to the endpoint, by event.
func listed(t *testing.T, l *delivery.Lanes, endpoint string) map[domain.ID]domain.DeliveryObject {
	t.Helper()
	all := make(map[domain.ID]domain.DeliveryObject)
	for f := (domain.DeliveryFilter{Endpoint: endpoint, Limit: 100}); ; {
		page, err := l.Deliveries(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Deliveries {
			if _, twice := all[d.EventID]; twice {
				t.Errorf("event %s is listed twice", d.EventID)
			}
			all[d.EventID] = d
		}
		if page.After == "" {
			return all
		}
		f.After = page.After
	}
}

// TestRealLanesAreFed restarts everything, wipes the JetStream directory, and
// at last loses the file of the lanes.
func TestRealLanesAreFed(t *testing.T) {
	t.Parallel()
	s, dir, natsDir := newShop(t), t.TempDir(), filepath.Join(t.TempDir(), "nats")
	s.paid(t)
	s.endpoint(t, "we_all", domain.Kinds()...)
	s.endpoint(t, "we_off", domain.KindPaymentPaid)
	s.order(t, projects.DisableEndpoint{At: 1, EndpointID: "we_off", Reason: projects.DisabledByRequest})
	var base eventstore.Position
	serve := func(meanwhile func(), check func(*delivery.Lanes)) {
		t.Helper()
		server := bustest.StartServer(t, embedded.Config{Dir: natsDir})
		c := bustest.ConnectTo(t, server)
		stopRelay := healthtest.Run(t, notifiertest.Relay(c, s.Book).Run)
		lanes, closeLanes := s.lanes(t, dir)
		var err error
		if _, base, err = lanes.Start(); err != nil {
			t.Fatal(err)
		}
		_, stop := s.serve(t, c, lanes, nil)
		meanwhile()
		healthtest.Eventually(t, "all is enqueued", func() bool {
			after, _, err := lanes.Start()
			return err == nil && after == s.Last(t)
		})
		check(lanes)
		stop()
		closeLanes()
		stopRelay()
		c.Close()
		server.Shutdown()
	}
	compare := func(l listener, counts func(delivery.Event) bool) func(*delivery.Lanes) {
		return func(lanes *delivery.Lanes) {
			t.Helper()
			got := listed(t, lanes, l.ID)
			for _, e := range s.wanted(t, l) {
				d, ok := got[e.ID]
				if ok != counts(e) || ok && (d.Type != e.Kind || d.Sequence != e.Sequence || d.Position != uint64(e.Position) || *d.PaymentID != e.Payment) {
					t.Errorf("%+v: got %+v, want it to be enqueued: %t", e, d, counts(e))
				}
				delete(got, e.ID)
			}
			if len(got) > 0 {
				t.Errorf("%d deliveries of what was not wanted", len(got))
			}
		}
	}
	all, off := s.listener("we_all", domain.Kinds()...), s.listener("we_off", domain.KindPaymentPaid)
	every := func(delivery.Event) bool { return true }
	for range 3 {
		serve(func() {
			for range 30 {
				s.paid(t)
			}
		}, func(lanes *delivery.Lanes) {
			compare(all, every)(lanes)
			compare(off, every)(lanes)
			healthtest.Eventually(t, "what goes to a disabled endpoint is held", func() bool {
				for _, d := range listed(t, lanes, "we_off") {
					if d.State != domain.DeliveryHeld {
						return false
					}
				}
				return true
			})
		})
		if err := os.RemoveAll(natsDir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "lanes.db")); err != nil {
		t.Fatal(err)
	}
	refunded := s.refunded(t)
	newest := make(map[domain.ID]eventstore.Position)
	for _, e := range s.wanted(t, all) {
		newest[e.Payment] = e.Position
	}
	serve(func() { s.paid(t) }, func(lanes *delivery.Lanes) {
		compare(all, func(e delivery.Event) bool {
			return e.Position > base || newest[e.Payment] == e.Position || e.Kind.Final()
		})(lanes)
		for _, d := range listed(t, lanes, "we_all") {
			if late := d.State == domain.DeliveryUnconfirmed; late != (*d.PaymentID == refunded && d.Type == domain.KindPaymentPaid) {
				t.Errorf("%s of %s is %s", d.Type, d.PaymentID, d.State)
			}
		}
	})
}

// refunded makes a payment that is paid and whose refund has succeeded.
func (s *shop) refunded(t *testing.T) domain.ID {
	t.Helper()
	id, refund := s.paid(t), s.IDs.Next()
	says := bustest.Paid(s.Do(t, id, domain.CreateRefund{RefundID: refund}))
	says.Reference, says.RefundID, says.Outcome = "refund", &refund, domain.OutcomeSucceeded
	s.Do(t, id, domain.ApplySignal{Signal: says})
	return id
}
