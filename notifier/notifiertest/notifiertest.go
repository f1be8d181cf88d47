// Package notifiertest makes the parts that run on NATS, with pauses short enough
// for tests.
package notifiertest

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/relay"
	"payledger/notifier/signals"
	"payledger/notifier/worker"
)

// Relay makes a relay of the book's log.
func Relay(c *bus.Conn, b *bustest.Book) *relay.Relay { return MeasuredRelay(c, b, nil) }

// MeasuredRelay is Relay with metrics.
func MeasuredRelay(c *bus.Conn, b *bustest.Book, metrics prometheus.Registerer) *relay.Relay {
	return relay.New(relay.Config{Conn: c, Store: b.Store, LogID: b.LogID, Log: zerolog.Nop(), Metrics: metrics, Times: relay.Times{
		Retry: healthtest.Quick(), Watch: 50 * time.Millisecond, Sweep: time.Hour, Answer: 5 * time.Second,
	}})
}

// Workers makes the workers, with the sandbox as the only route.
func Workers(tb testing.TB, b *bustest.Book) *worker.Workers {
	tb.Helper()
	return worker.New(worker.Config{
		Ledger: b.Ledger, IDs: b.IDs, Now: b.Now, Table: func() (inUse, _ domain.RoutingTable) { return domain.SandboxTable(), nil },
		Unrouted: bustest.Views{Book: b}, Due: bustest.Views{Book: b}, Log: healthtest.Log(tb),
	})
}

// Enforcer makes an enforcer.
func Enforcer(tb testing.TB, c *bus.Conn, b *bustest.Book) *signals.Enforcer {
	tb.Helper()
	times := signals.DefaultTimes()
	times.Retry, times.Watch, times.Heartbeat = healthtest.Quick(), 100*time.Millisecond, 500*time.Millisecond
	return signals.New(signals.Config{Conn: c, Ledger: b.Ledger, LogID: b.LogID, IDs: b.IDs, Times: times, Log: zerolog.Nop()})
}

// CopyOnce copies a log and stops.
func CopyOnce(t *testing.T, c *bus.Conn, b *bustest.Book) {
	t.Helper()
	stop := healthtest.Run(t, Relay(c, b).Run)
	bustest.SameAsLog(t, c.JetStream(), b)
	stop()
}
