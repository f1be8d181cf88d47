package notifier

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/health"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/signals"
	"payledger/notifier/worker"
)

func TestRelayCopiesTheLogInOrder(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	for range 300 {
		b.Create(t, time.Hour)
	}
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	r := relayOf(c, b)
	healthtest.Run(t, r.Run)
	for range 300 {
		b.Routed(t)
	}
	bustest.SameAsLog(t, c.JetStream(), b)
	healthtest.Eventually(t, "the relay knows", func() bool { return r.Position() == b.Last(t) && r.Err() == nil })
	if lag := health.Lag(b.Store, r.Position()); lag != 0 {
		t.Errorf("lag %v", lag)
	}
	if lag := health.Lag(b.Store, r.Position()-7); lag != 7 {
		t.Errorf("lag %v", lag)
	}
}

func TestRelayGoesOnAfterRestarts(t *testing.T) {
	t.Parallel()
	b, dir := bustest.NewBook(t), t.TempDir()
	var first string
	for i := range 5 {
		s := bustest.StartServer(t, embedded.Config{Dir: dir})
		c := bustest.ConnectTo(t, s)
		stop := healthtest.Run(t, relayOf(c, b).Run)
		for range 40 {
			b.Routed(t)
		}
		if i%2 == 0 {
			bustest.SameAsLog(t, c.JetStream(), b) // otherwise it is stopped in the middle
			if now := bustest.Created(t, c, bus.EventsStream); first == "" {
				first = now
			} else if now != first {
				t.Error("the copy was rebuilt")
			}
		}
		stop()
		c.Close()
		s.Shutdown()
	}
}

// copyMore adds payments to the log while it is copied into the server of the
// directory, which it shuts down at the end.
func copyMore(t *testing.T, b *bustest.Book, dir string) {
	t.Helper()
	s := bustest.StartServer(t, embedded.Config{Dir: dir})
	c := bustest.ConnectTo(t, s)
	stop := healthtest.Run(t, relayOf(c, b).Run)
	for range 50 {
		b.Routed(t)
	}
	bustest.SameAsLog(t, c.JetStream(), b)
	stop()
	c.Close()
	s.Shutdown()
}

func TestRelayRebuildsADeletedDirectory(t *testing.T) {
	t.Parallel()
	b, dir := bustest.NewBook(t), t.TempDir()
	for range 2 {
		copyMore(t, b, dir)
		if err := os.RemoveAll(filepath.Join(dir, natsserver.JetStreamStoreDir)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRelayGoesOnFromARolledBackDirectory(t *testing.T) {
	t.Parallel()
	b, dir, backup := bustest.NewBook(t), t.TempDir(), filepath.Join(t.TempDir(), "nats")
	for i := range 3 {
		copyMore(t, b, dir)
		var err error
		if i == 0 {
			err = os.CopyFS(backup, os.DirFS(dir))
		} else {
			err = errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(backup)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRelayRebuildsWhatIsNotThisLog: copies of another log, of a longer one,
// of one that differs in its last event, with gaps, and with other limits.
func TestRelayRebuildsWhatIsNotThisLog(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *bus.Conn, *bustest.Book){
		"another log": func(t *testing.T, c *bus.Conn, _ *bustest.Book) {
			other := bustest.NewBook(t)
			other.Routed(t)
			copyOnce(t, c, other)
		},
		"longer than the log": func(t *testing.T, c *bus.Conn, b *bustest.Book) {
			longer := bustest.NewBook(t)
			longer.LogID = b.LogID
			for range 20 {
				longer.Routed(t)
			}
			copyOnce(t, c, longer)
		},
		"other last event": func(t *testing.T, c *bus.Conn, b *bustest.Book) {
			other := bustest.NewBook(t)
			other.LogID = b.LogID
			other.Routed(t)
			copyOnce(t, c, other)
		},
		"gap": func(t *testing.T, c *bus.Conn, b *bustest.Book) {
			cfg := bus.EventsConfig(b.LogID)
			cfg.DenyDelete = false
			stream, err := c.JetStream().CreateStream(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range b.Records(t)[:4] {
				m, err := bus.EventMessage(b.LogID, r)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := bustest.ConnectAs(t, c.Server(), bus.UserRelay).JetStream().PublishMsg(healthtest.Within(t), m); err != nil {
					t.Fatal(err)
				}
			}
			if err := stream.DeleteMsg(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
		},
		"subjects of the version before": func(t *testing.T, c *bus.Conn, b *bustest.Book) {
			if _, err := c.JetStream().CreateStream(t.Context(), bus.EventsConfig(b.LogID)); err != nil {
				t.Fatal(err)
			}
			for _, r := range b.Records(t)[:4] {
				m, err := bus.EventMessage(b.LogID, r)
				if err != nil {
					t.Fatal(err)
				}
				m.Subject = bus.EventsPrefix + r.Stream.Project + ".payment." + r.Stream.ID
				if _, err := bustest.ConnectAs(t, c.Server(), bus.UserRelay).JetStream().PublishMsg(healthtest.Within(t), m); err != nil {
					t.Fatal(err)
				}
			}
		},
		"limits": func(t *testing.T, c *bus.Conn, b *bustest.Book) {
			cfg := bus.EventsConfig(b.LogID)
			cfg.MaxMsgs = 5
			if _, err := c.JetStream().CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		},
		"not ours": func(t *testing.T, c *bus.Conn, _ *bustest.Book) {
			_, err := c.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: bus.EventsStream, Subjects: []string{bus.EventsSubjects}})
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.NewBook(t)
			for range 5 {
				b.Routed(t)
			}
			c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
			spoil(t, c, b)
			was := bustest.Created(t, c, bus.EventsStream)
			healthtest.Run(t, relayOf(c, b).Run)
			bustest.SameAsLog(t, c.JetStream(), b)
			if bustest.Created(t, c, bus.EventsStream) == was {
				t.Error("the copy was not rebuilt")
			}
		})
	}
}

// TestRelayNoticesWhatHappensToAnIdleCopy: nothing is appended that could
// fail.
func TestRelayNoticesWhatHappensToAnIdleCopy(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	b.Routed(t)
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	healthtest.Run(t, relayOf(c, b).Run)
	bustest.SameAsLog(t, c.JetStream(), b)
	if err := c.JetStream().DeleteStream(t.Context(), bus.EventsStream); err != nil {
		t.Fatal(err)
	}
	bustest.SameAsLog(t, c.JetStream(), b)
}

// TestForeignWriterCannotSpoilTheCopy: a message nobody should have written
// makes the copy be rebuilt.
func TestForeignWriterCannotSpoilTheCopy(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	b.Routed(t)
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	r := relayOf(c, b)
	healthtest.Run(t, r.Run)
	bustest.SameAsLog(t, c.JetStream(), b)
	was := bustest.Created(t, c, bus.EventsStream)
	if _, err := bustest.ConnectAs(t, c.Server(), bus.UserRelay).JetStream().Publish(healthtest.Within(t), "payledger.v1.events.x.payment.y", []byte("junk")); err != nil {
		t.Fatal(err)
	}
	b.Create(t, time.Hour)
	healthtest.Eventually(t, "the copy is rebuilt", func() bool {
		stream, err := c.JetStream().Stream(t.Context(), bus.EventsStream)
		return err == nil && stream.CachedInfo().Created.String() != was
	})
	bustest.SameAsLog(t, c.JetStream(), b)
}

// TestOnlyTheRelayWritesEvents: not even what else runs in this process. One
// answer of JetStream could not stand for many events otherwise.
func TestOnlyTheRelayWritesEvents(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	healthtest.Run(t, relayOf(c, b).Run)
	var foreign sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer foreign.Wait()
	defer stop()
	foreign.Go(func() {
		for ctx.Err() == nil {
			if err := errors.Join(c.NATS().Publish("payledger.v1.events.x.payment.y", []byte("junk")), c.NATS().Flush()); err != nil {
				t.Error(err)
			}
		}
	})
	for range 200 {
		b.Routed(t)
	}
	bustest.SameAsLog(t, c.JetStream(), b)
	stop()
	foreign.Wait()
	if err := c.NATS().LastError(); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("%v", err)
	}
	bustest.SameAsLog(t, c.JetStream(), b)
}

func TestRelayStopsWithTheStore(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	b.Routed(t)
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	done := make(chan error, 1)
	go func() { done <- relayOf(c, b).Run(context.Background()) }()
	bustest.SameAsLog(t, c.JetStream(), b)
	if err := b.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, eventstore.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// relayOf makes a relay of the book's log.
func relayOf(c *bus.Conn, b *bustest.Book) *Relay { return measuredRelay(c, b, nil) }

// measuredRelay is relayOf with metrics.
func measuredRelay(c *bus.Conn, b *bustest.Book, metrics prometheus.Registerer) *Relay {
	return NewRelay(RelayConfig{Conn: c, Store: b.Store, LogID: b.LogID, Log: zerolog.Nop(), Metrics: metrics, Times: RelayTimes{
		Retry: healthtest.Quick(), Watch: 50 * time.Millisecond, Sweep: time.Hour, Answer: 5 * time.Second,
	}})
}

// copyOnce copies a log and stops.
func copyOnce(t *testing.T, c *bus.Conn, b *bustest.Book) {
	t.Helper()
	stop := healthtest.Run(t, relayOf(c, b).Run)
	bustest.SameAsLog(t, c.JetStream(), b)
	stop()
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	r := prometheus.NewPedanticRegistry()
	NewRelay(RelayConfig{Conn: c, Store: b.Store, LogID: b.LogID, Metrics: r})
	signals.New(signals.Config{Conn: c, Ledger: b.Ledger, Metrics: r})
	worker.New(worker.Config{Ledger: b.Ledger, Metrics: r})
	families, err := r.Gather()
	if err != nil || len(families) < 6 {
		t.Errorf("%d, %v", len(families), err)
	}
}
