package bolt

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
)

// till is a payment service whose clock is set by hand.
type till struct {
	*testing.T
	path   string
	now    time.Time
	store  *Store
	ids    *domain.IDs
	ledger eventstore.Ledger
}

func (w *till) start() {
	w.Helper()
	s, err := Open(w.path, Options{MinFree: 1})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = s.Close() })
	last, err := s.LastID(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	w.store, w.ledger = s, eventstore.Ledger{Store: s, Codec: eventstore.NewCodec()}
	w.ids = domain.NewIDs(func() time.Time { return w.now }, rand.Reader, last)
}

func (w *till) restart() {
	w.Helper()
	if err := w.store.Close(); err != nil {
		w.Fatal(err)
	}
	w.start()
}

// create makes a payment under a key. replayed: the key had made it before.
func (w *till) create(key byte) (made domain.PaymentCreated, id domain.ID, replayed bool) {
	w.Helper()
	id, event := w.ids.Pair()
	stream := eventstore.PaymentStream("prj_a", id)
	r, err := eventstore.Execute(w.Context(), w.ledger, stream, domain.Payment{Project: "prj_a", ID: id}, domain.PaymentCommand(domain.CreatePayment{
		At: domain.IDTime(event), Amount: 500, Currency: "RUB", Settings: domain.DefaultSettings(),
	}), eventstore.Order{EventID: event, New: true, Claim: &eventstore.Claim{Key: domain.Digest{key}, Fingerprint: domain.Digest{key, 1}}})
	if err != nil {
		w.Fatal(err)
	}
	if r.Replayed {
		id, _ = domain.ParseID(r.Stored.Stream.ID)
	}
	made, ok := r.Event.(domain.PaymentCreated)
	if !ok {
		w.Fatalf("%T", r.Event)
	}
	return made, id, r.Replayed
}

// expire tries to expire the payment at the time of the next id, and returns the
// refusal.
func (w *till) expire(id domain.ID) error {
	event := w.ids.Next()
	_, err := eventstore.Execute(w.Context(), w.ledger, eventstore.PaymentStream("prj_a", id), domain.Payment{Project: "prj_a", ID: id},
		domain.PaymentCommand(domain.ExpirePayment{At: domain.IDTime(event)}), eventstore.Order{EventID: event})
	return err
}

// TestClockSteps sets the clock back and forward, between runs and during a run. Ids
// and times in the log never go back, a payment expires no earlier than its time by
// the log, and no key is claimed twice.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	const hour, year = time.Hour, 365 * 24 * time.Hour
	for name, steps := range map[string][]time.Duration{
		"back an hour":             {0, -hour, -hour},
		"back a year":              {0, -year},
		"forward a year":           {0, year, 0, year},
		"forward a year, and back": {0, year, -year, -hour, hour},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := &till{T: t, path: newLog(t), now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
				w.start()
				ids := map[byte]domain.ID{}
				for i, step := range steps {
					w.now = w.now.Add(step)
					if restarts {
						w.restart()
					}
					made, id, replayed := w.create(byte(i))
					if replayed {
						t.Fatalf("step %d: a new key is taken", i)
					}
					ids[byte(i)] = id
					for key, id := range ids {
						if _, again, replayed := w.create(key); !replayed || again != id {
							t.Fatalf("step %d: key %d made payment %s, and now %s", i, key, id, again)
						}
					}
					w.expiry(made, id)
				}
				w.inOrder()
			})
		}
	}
}

// expiry tries with the clock just before the payment is due, and when it is due.
func (w *till) expiry(made domain.PaymentCreated, id domain.ID) {
	w.Helper()
	if made.ExpiresAt != domain.IDTime(id).Add(domain.DefaultSettings().Lifetime()) {
		w.Fatalf("a payment of %s expires at %s", domain.IDTime(id), made.ExpiresAt)
	}
	before := w.now
	defer func() { w.now = before }()
	if err := w.expire(id); !errors.As(err, new(*domain.TooEarlyError)) {
		w.Fatalf("expiring at once: %v", err)
	}
	w.now = made.ExpiresAt.Time().Add(-time.Millisecond)
	if err := w.expire(id); !errors.As(err, new(*domain.TooEarlyError)) {
		w.Fatalf("expiring a millisecond before it is due: %v", err)
	}
	w.now = made.ExpiresAt.Time()
	if err := w.expire(id); err != nil {
		w.Fatalf("expiring when it is due: %v", err)
	}
}

func (w *till) inOrder() {
	w.Helper()
	var last time.Time
	for r, err := range w.store.Scan(w.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			w.Fatal(err)
		}
		if r.At.Before(last) {
			w.Errorf("position %d is of %s, after %s", r.Position, r.At, last)
		}
		last = r.At
	}
	if err := w.store.Verify(w.Context()); err != nil {
		w.Error(err)
	}
}

// The control: ids that come from the clock alone go back, and the check finds it.
func TestClockStepsOfANaiveService(t *testing.T) {
	t.Parallel()
	w := &till{T: t, path: newLog(t), now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
	w.start()
	_, first, _ := w.create(1)
	w.now = w.now.Add(-time.Hour)
	w.ids = domain.NewIDs(func() time.Time { return w.now }, rand.Reader, domain.ID{})
	_, second, _ := w.create(2)
	if domain.IDTime(second) >= domain.IDTime(first) {
		t.Errorf("%s is not before %s", second, first)
	}
}
