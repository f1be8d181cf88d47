// Package healthtest is how tests wait for what other goroutines and processes do,
// and read what they write.
package healthtest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"payledger/notifier/health"
)

// Overlap lets more tests run at a time than there are processors, unless -parallel
// says how many: they wait for servers, processes and disks. It also lets their heap grow
// to five times what is alive, unless GOGC says how far: most are over before collecting
// more often pays. Benchmarks measure with Go's default. A TestMain calls it.
func Overlap() {
	if err := flag.Set("test.parallel", strconv.Itoa(max(16, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	benchmarks := slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.bench=") })
	if _, set := os.LookupEnv("GOGC"); !set && !benchmarks {
		debug.SetGCPercent(400)
	}
}

// VerifyMain runs the tests of a package, which overlap, and checks for leaked goroutines.
func VerifyMain(m *testing.M) {
	Overlap()
	goleak.VerifyTestMain(m,
		// A JetStream stream that is being made while its server shuts down is
		// not closed by nats-server.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*msgBlock).flushLoop"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// Log is the log of a test, without debug records.
func Log(tb testing.TB) zerolog.Logger {
	return zerolog.New(zerolog.NewTestWriter(quiet{tb})).Level(zerolog.InfoLevel)
}

// quiet drops what is logged after a test has ended.
type quiet struct{ testing.TB }

func (q quiet) Log(args ...any) {
	if q.Context().Err() == nil {
		q.TB.Log(args...)
	}
}

// Run lets a part work until the test or stop ends it.
func Run(tb testing.TB, part func(context.Context) error) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			tb.Error(err)
		}
	}
	tb.Cleanup(stop)
	return stop
}

// Measured is the value of a metric that has no labels.
func Measured(tb testing.TB, r prometheus.Gatherer, name string) float64 {
	tb.Helper()
	families, err := r.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	tb.Fatalf("no metric %s", name)
	return 0
}

// Patience is how long a test waits for what comes at once, except on a machine
// that is busy with all the other tests and with the work of others. It only bounds how late a
// failure is reported.
const Patience = 5 * time.Minute

// Eventually waits until the condition holds. It checks less often the longer a check takes, which
// may run a process, and the longer it has waited.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for began := time.Now(); ; {
		look := time.Now()
		if holds() {
			return
		}
		waited := time.Since(began)
		if waited > Patience {
			tb.Fatalf("%s: not within %v", what, Patience)
		}
		time.Sleep(min(2*time.Millisecond+2*time.Since(look)+waited/20, 200*time.Millisecond))
	}
}

// Quick are pauses short enough for tests.
func Quick() health.Backoff {
	return health.Backoff{First: 5 * time.Millisecond, Max: 50 * time.Millisecond}
}

// Within is a context that ends after Patience.
func Within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	tb.Cleanup(cancel)
	return ctx
}

// FreeAddress is an address for a TCP server that starts later, on a port that no system gives to a
// connection meanwhile. Until the test ends no other test gets it, in this process or another one:
// a UDP socket, which no server of ours has, reserves the port's number.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		held, err := net.ListenPacket("udp", address)
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err == nil {
			t.Cleanup(func() { _ = held.Close() })
			_ = l.Close()
			return address
		}
		_ = held.Close()
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// Buffer is a buffer that may be read while others write to it. The zero value is
// empty.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (s *Buffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// String is all that was written.
func (s *Buffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
