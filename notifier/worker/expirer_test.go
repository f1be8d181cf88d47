package worker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

// expiring runs an expirer until stop, on the bubble's clock moved by step.
func expiring(t *testing.T, b *bustest.Book, due DueView, store eventstore.Store) (e *expirer, stop func() error) {
	t.Helper()
	ledger := b.Ledger
	ledger.Store = store
	e = newExpirer(Config{Ledger: ledger, IDs: b.IDs, Now: b.Now, Due: due, Log: zerolog.Nop()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.run(ctx) }()
	return e, func() error {
		cancel()
		return <-done
	}
}

// expiredAt is when the payment expired, 0 if it has not.
func expiredAt(t *testing.T, b *bustest.Book, id domain.ID) domain.Instant {
	t.Helper()
	if b.Payment(t, id).Status != domain.Expired {
		return 0
	}
	var last eventstore.Stored
	for r, err := range b.Store.Load(t.Context(), eventstore.PaymentStream(bustest.Project, id)) {
		if err != nil {
			t.Fatal(err)
		}
		last = r
	}
	return domain.InstantOf(last.At)
}

func TestPaymentsExpireInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bustest.NewBook(t)
		start := time.Now()
		_, stop := expiring(t, b, bustest.Views{Book: b}, b.Store)
		time.Sleep(7 * time.Second)
		unrouted := b.Create(t, 10*time.Minute)
		routed := b.Routed(t).ID // 60 minutes and the grace
		short := b.Create(t, domain.MinLifetime)
		paidOne := b.Routed(t)
		b.Do(t, paidOne.ID, domain.ApplySignal{Signal: bustest.Paid(paidOne)})

		due := map[domain.ID]domain.Instant{}
		for _, id := range []domain.ID{unrouted, routed, short} {
			due[id] = b.Payment(t, id).ExpiryDue()
		}
		if got := due[routed]; got != domain.InstantOf(start.Add(7*time.Second+time.Hour+domain.Grace)) {
			t.Errorf("routed is due %v", got)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		for id, want := range due {
			if got := expiredAt(t, b, id); got != want {
				t.Errorf("expired %v, due %v", got, want)
			}
		}
		if got := b.Payment(t, paidOne.ID).Status; got != domain.Paid {
			t.Errorf("the paid one is %s", got)
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// TestManyExpireAtOnce: more than a batch, after a long sleep of the whole
// program.
func TestManyExpireAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bustest.NewBook(t)
		for range 2*expireBatch + 1 {
			b.Create(t, domain.MinLifetime)
		}
		time.Sleep(time.Hour)
		now := time.Now()
		_, stop := expiring(t, b, bustest.Views{Book: b}, b.Store)
		synctest.Wait()
		if _, some, err := (bustest.Views{Book: b}).NextDue(t.Context()); some || err != nil || !time.Now().Equal(now) {
			t.Errorf("%v, %v after %v", some, err, time.Since(now))
		}
		_ = stop()
	})
}

// TestExpiryFollowsTheClockOnTheWall: it is set forward and back while the
// expirer sleeps.
func TestExpiryFollowsTheClockOnTheWall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bustest.NewBook(t)
		var step atomic.Int64
		b.Now = func() time.Time { return time.Now().Add(time.Duration(step.Load())) }
		b.IDs = domain.NewIDs(b.Now, zeroes{}, domain.ID{})
		// Its deadline is far away when the expirer goes to sleep.
		first := b.Create(t, time.Hour)
		_, stop := expiring(t, b, bustest.Views{Book: b}, b.Store)
		synctest.Wait()
		step.Store(int64(time.Hour))
		time.Sleep(lookEvery)
		synctest.Wait()
		if expiredAt(t, b, first) == 0 {
			t.Error("not expired after the clock was set forward")
		}
		second := b.Create(t, 30*time.Minute)
		due := b.Payment(t, second).ExpiryDue()
		step.Store(0)
		time.Sleep(time.Hour)
		synctest.Wait()
		if expiredAt(t, b, second) != 0 {
			t.Error("expired before its time on the clock")
		}
		time.Sleep(30*time.Minute + lookEvery)
		synctest.Wait()
		if at := expiredAt(t, b, second); at < due {
			t.Errorf("expired %v", at)
		}
		_ = stop()
	})
}

// zeroes makes ids differ by their time only.
type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// mistaken is a view that names a payment the log does not let expire, and
// fails now and then.
type mistaken struct {
	bustest.Views
	id     domain.ID
	asked  atomic.Int64
	broken atomic.Bool
}

func (m *mistaken) EachDue(_ context.Context, _ domain.Instant, _ int, fn func(string, domain.ID) error) error {
	m.asked.Add(1)
	if m.broken.Load() {
		return errors.New("the view is being rebuilt")
	}
	return fn(bustest.Project, m.id)
}

func (m *mistaken) NextDue(context.Context) (domain.Instant, bool, error) { return 1, true, nil }

func TestExpirerDoesNotSpin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bustest.NewBook(t)
		m := &mistaken{Views: bustest.Views{Book: b}, id: b.Create(t, 10*time.Minute)}
		e, stop := expiring(t, b, m, b.Store)
		time.Sleep(5 * time.Minute)
		m.broken.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if e.trouble.Err() == nil {
			t.Error("the view's error is not told")
		}
		m.broken.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := e.trouble.Err(); err != nil {
			t.Error(err)
		}
		if n := m.asked.Load(); n > 400 {
			t.Errorf("asked %d times in six minutes", n)
		}
		if expiredAt(t, b, m.id) != 0 {
			t.Error("expired before its time")
		}
		// The view was right after all.
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if expiredAt(t, b, m.id) == 0 {
			t.Error("not expired")
		}
		_ = stop()
	})
}

// TestExpirerSaysSeldomWhatItCannotExpire: a payment whose record is damaged is tried each second, and
// told some times a minute.
func TestExpirerSaysSeldomWhatItCannotExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bustest.NewBook(t)
		b.Create(t, domain.MinLifetime)
		damaged := &bustest.Failing{Store: b.Store, Left: make(chan error, 2000)}
		for range cap(damaged.Left) {
			damaged.Left <- errors.New("the record is damaged")
		}
		ledger, log := b.Ledger, new(healthtest.Buffer)
		ledger.Store = damaged
		e := newExpirer(Config{Ledger: ledger, IDs: b.IDs, Now: b.Now, Due: bustest.Views{Book: b}, Log: zerolog.New(log)})
		ctx, cancel := context.WithTimeout(t.Context(), domain.MinLifetime+10*time.Minute)
		defer cancel()
		if err := e.run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		tried, said := cap(damaged.Left)-len(damaged.Left), strings.Count(log.String(), "a payment could not be expired")
		if tried < 300 || said == 0 || said > 120 {
			t.Errorf("told %d times of %d", said, tried)
		}
	})
}

func TestExpirerWaitsForAFullStoreAndStopsWithAFatalOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := bustest.NewBook(t)
		id := b.Create(t, domain.MinLifetime)
		fails := &bustest.Failing{Store: b.Store, Left: make(chan error, 64)}
		for range 5 {
			fails.Left <- eventstore.ErrFull
		}
		e, stop := expiring(t, b, bustest.Views{Book: b}, fails)
		time.Sleep(domain.MinLifetime + time.Minute)
		if expiredAt(t, b, id) == 0 {
			t.Error("not expired")
		}
		_ = stop()

		b.Create(t, domain.MinLifetime)
		time.Sleep(time.Hour)
		fails.Left <- &eventstore.FatalError{Err: errors.New("disk on fire")}
		if err := e.run(t.Context()); !errors.As(err, new(*eventstore.FatalError)) {
			t.Errorf("%v", err)
		}
	})
}
