// Package notifiertest makes the parts that run on NATS, with pauses short enough
// for tests.
package notifiertest

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/signals"
	"payledger/notifier/worker"
)

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
