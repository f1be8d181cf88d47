package fanout

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/notifier/bus"
	"payledger/notifier/bustest"
	"payledger/notifier/delivery"
	"payledger/notifier/health"
	"payledger/notifier/health/healthtest"
	"payledger/projections"
)

// shop is a book on disk with its views and projects that have endpoints.
type shop struct {
	*bustest.Book
	views *projections.Engine
	added map[string]eventstore.Position // endpoints by id, removed ones too
}

func newShop(t *testing.T) *shop {
	t.Helper()
	b, dir := bustest.NewBook(t), t.TempDir()
	if err := bolt.Init(filepath.Join(dir, "ledger.db"), b.LogID); err != nil {
		t.Fatal(err)
	}
	store, err := bolt.Open(filepath.Join(dir, "ledger.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	b.Store = store
	views, err := projections.Open(t.Context(), projections.Config{
		Path: filepath.Join(dir, "projections.db"), Store: store, Codec: b.Codec, LogID: b.LogID,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = views.Close() })
	healthtest.Run(t, views.Run)
	s := &shop{Book: b, views: views, added: make(map[string]eventstore.Position)}
	s.Register(t)
	return s
}

func (s *shop) order(t *testing.T, cmd projects.ProjectCommand) eventstore.Position {
	t.Helper()
	r, err := eventstore.Execute(t.Context(), s.Ledger, eventstore.ProjectStream(bustest.Project),
		projects.Project{ID: bustest.Project}, cmd, eventstore.Order{EventID: s.IDs.Next()})
	if err != nil {
		t.Fatal(err)
	}
	return r.Stored.Position
}

func (s *shop) endpoint(t *testing.T, id string, kinds ...domain.Kind) {
	t.Helper()
	s.added[id] = s.order(t, projects.AddEndpoint{
		At: domain.InstantOf(s.Now()), EndpointID: id, URL: "https://merchant.example/" + id, Kinds: kinds, KeyVersion: 1,
	})
}

// paid makes a payment with a route that is paid: three events.
func (s *shop) paid(t *testing.T) domain.ID {
	t.Helper()
	p := s.Routed(t)
	return s.Do(t, p.ID, domain.ApplySignal{Signal: bustest.Paid(p)}).ID
}

// lanesDouble keeps what is enqueued, as a file would, and can fail. It is
// there to fail on request; what the real ones do is tried elsewhere.
type lanesDouble struct {
	mu       sync.Mutex
	base     eventstore.Position
	after    eventstore.Position
	all      []delivery.Event
	calls    int
	wrong    []string
	fails    []error // of the next calls
	keepsOne bool    // a call that fails has kept its events all the same
	down     bool
	unread   int           // times that Start fails before it works
	gate     chan struct{} // calls wait for it; nil: do not
	waits    atomic.Bool   // a call has begun to wait for it
}

func (l *lanesDouble) Start() (after, base eventstore.Position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unread > 0 {
		l.unread--
		return 0, 0, errors.New("the lanes cannot be read")
	}
	return l.after, l.base, nil
}

func (l *lanesDouble) Enqueue(ctx context.Context, upTo eventstore.Position, events []delivery.Event) error {
	l.mu.Lock()
	gate := l.gate
	l.mu.Unlock()
	if gate != nil {
		l.waits.Store(true)
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	var err error
	switch {
	case l.down:
		return errors.New("the lanes are gone")
	case len(l.fails) > 0:
		err, l.fails = l.fails[0], l.fails[1:]
		if !l.keepsOne {
			return err
		}
	}
	if upTo <= l.after {
		l.wrong = append(l.wrong, fmt.Sprintf("up to %d after %d", upTo, l.after))
	}
	last := l.after
	for _, e := range events {
		if e.Position <= l.after || e.Position < last || e.Position > upTo {
			l.wrong = append(l.wrong, fmt.Sprintf("position %d behind %d, up to %d after %d", e.Position, last, upTo, l.after))
		}
		last = e.Position
	}
	l.after, l.all = upTo, append(l.all, slices.Clone(events)...)
	return err
}

func (l *lanesDouble) reached() eventstore.Position {
	after, _, _ := l.Start()
	return after
}

func (l *lanesDouble) check(t *testing.T, want []delivery.Event) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wrong := range l.wrong {
		t.Error(wrong)
	}
	for i := range max(len(l.all), len(want)) {
		switch {
		case i >= len(l.all):
			t.Fatalf("%d events, want %d; the first missing: %+v", i, len(want), want[i])
		case i >= len(want):
			t.Fatalf("%d events, want %d; the first too many: %+v", len(l.all), i, l.all[i])
		case l.all[i] != want[i]:
			t.Fatalf("event %d:\n got %+v\nwant %+v", i, l.all[i], want[i])
		}
	}
}

func (s *shop) serve(t *testing.T, c *bus.Conn, l Lanes, metrics prometheus.Registerer) (f *FanOut, stop func()) {
	t.Helper()
	f = New(Config{
		Conn: c, LogID: s.LogID, Ledger: s.Ledger, Lanes: l, Endpoints: s.views, Times: bustest.QuickReader(), Log: healthtest.Log(t), Metrics: metrics,
	})
	f.retry = health.Backoff{First: time.Millisecond, Max: 20 * time.Millisecond}
	return f, healthtest.Run(t, f.Run)
}

// wanted is what endpoints that take the kinds are to hear of the whole log,
// in order.
func (s *shop) wanted(t *testing.T, listeners ...listener) (all []delivery.Event) {
	t.Helper()
	for _, r := range s.Records(t) {
		event, err := s.Codec.Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		if r.Stream.Kind != eventstore.KindPayment {
			continue
		}
		kind, ok := domain.KindOf(event)
		payment, isPayment := domain.ParseID(r.Stream.ID)
		if !ok || !isPayment {
			continue
		}
		for _, l := range listeners {
			if kind, wanted := l.KindFor(kind, r.Sequence); r.Position > l.added && wanted {
				all = append(all, delivery.Event{
					Project: r.Stream.Project, Endpoint: l.ID, Payment: payment, ID: r.Commit, Kind: kind,
					Sequence: r.Sequence, Position: r.Position,
				})
			}
		}
	}
	return all
}

func (s *shop) listener(id string, kinds ...domain.Kind) listener {
	return listener{projects.Endpoint{ID: id, Kinds: kinds}, s.added[id]}
}
