package notifier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/acquirer"
)

// external is a nats-server process, built from the module this program
// embeds.
type external struct {
	binary, dir, addr string
	process           *exec.Cmd
}

// serverBinary is built once for all tests, and removed after the last.
var serverBinary struct {
	once sync.Once
	dir  string
	err  error
}

func buildServer() (string, error) {
	b := &serverBinary
	b.once.Do(func() {
		if b.dir, b.err = os.MkdirTemp("", "nats-server"); b.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", b.dir, "github.com/nats-io/nats-server/v2").CombinedOutput()
		if err != nil {
			b.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	return filepath.Join(b.dir, "nats-server"), b.err
}

func newExternal(t *testing.T) *external {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs a nats-server process")
	}
	binary, err := buildServer()
	if err != nil {
		t.Fatal(err)
	}
	e := &external{binary: binary, dir: t.TempDir(), addr: freeAddress(t)}
	t.Cleanup(e.kill)
	return e
}

// freeAddress is an address for a server that starts later, on a port that no
// system gives to a connection meanwhile.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			_ = l.Close()
			return l.Addr().String()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

func (e *external) url() string { return "nats://" + e.addr }

func (e *external) start(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(e.addr)
	if err != nil {
		t.Fatal(err)
	}
	e.process = exec.Command(e.binary, "-js", "-sd", e.dir, "-a", host, "-p", port)
	if err := e.process.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server listens", func() bool {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", e.addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
}

// kill ends the process at once, as a crash would.
func (e *external) kill() {
	if e.process != nil {
		_ = e.process.Process.Kill()
		_ = e.process.Wait()
		e.process = nil
	}
}

func (e *external) connect(t *testing.T) *Conn {
	t.Helper()
	c, err := Connect(e.url(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestExternalServerComesAndGoes: it is away at the start, then killed in the
// midst of the work, wiped, and started again; meanwhile payments go on.
func TestExternalServerComesAndGoes(t *testing.T) {
	t.Parallel()
	e, b := newExternal(t), newBook(t)
	c := e.connect(t)
	if c.Err() == nil || c.Embedded() {
		t.Error("connected to nothing")
	}
	metrics := prometheus.NewRegistry()
	r := measuredRelay(c, b, metrics)
	run(t, r.Run)
	run(t, newWorkers(t, c, b).Run)
	run(t, newEnforcer(t, c, b).Run)
	for range 20 {
		b.create(t, time.Hour)
	}
	eventually(t, "the relay is in trouble", func() bool { return r.Err() != nil })
	if up, refuses := measured(t, metrics, "payledger_relay_up"), measured(t, metrics, "payledger_relay_refuses"); up != 0 || refuses != 0 {
		t.Errorf("up %v, refuses %v", up, refuses)
	}
	e.start(t)
	allRouted(t, b)
	sameAsLog(t, c.JetStream(), b)
	eventually(t, "the relay is up", func() bool { return measured(t, metrics, "payledger_relay_up") == 1 })

	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				b.create(t, time.Hour)
				time.Sleep(time.Millisecond)
			}
		}
	})
	for i := range 3 {
		from := r.Position()
		eventually(t, "the copy goes on", func() bool { return r.Position() > from+20 })
		e.kill()
		if i == 2 {
			if err := os.RemoveAll(e.dir); err != nil {
				t.Fatal(err)
			}
		}
		e.start(t)
	}
	close(stop)
	writer.Wait()
	allRouted(t, b)
	sameAsLog(t, c.JetStream(), b)

	p := b.routed(t)
	sandbox := acquirer.NewSandbox(acquirer.Env{NATS: c.NATS(), Now: time.Now})
	if reply, err := sandbox.SignalPayment(within(t), p, domain.OutcomePaid, "ref"); err != nil || reply.Result != domain.SignalApplied {
		t.Errorf("%+v, %v", reply, err)
	}
}

// TestSignalsSurviveAnOutage: what was sent while the enforcer was away is
// judged when it is back, and a sender that waits is answered.
func TestSignalsSurviveAnOutage(t *testing.T) {
	t.Parallel()
	e, b := newExternal(t), newBook(t)
	e.start(t)
	c := e.connect(t)
	stop := run(t, newEnforcer(t, c, b).Run)
	eventually(t, "the JetStream stream is there", func() bool {
		_, err := c.JetStream().Stream(t.Context(), SignalsStream)
		return err == nil
	})
	stop()
	p := b.routed(t)
	answered := make(chan domain.SignalReply, 1)
	sandbox := acquirer.NewSandbox(acquirer.Env{NATS: e.connect(t).NATS(), Now: time.Now})
	ctx := within(t)
	go func() {
		reply, err := sandbox.SignalPayment(ctx, p, domain.OutcomePaid, "ref")
		if err != nil {
			t.Error(err)
		}
		answered <- reply
	}()
	eventually(t, "the signal waits", func() bool {
		s, err := c.JetStream().Stream(t.Context(), SignalsStream)
		return err == nil && s.CachedInfo().State.Msgs > 0
	})
	e.kill()
	e.start(t)
	run(t, newEnforcer(t, c, b).Run)
	if reply := <-answered; reply.Result != domain.SignalApplied && reply.Result != domain.SignalUnchanged {
		t.Errorf("%+v", reply)
	}
	if got := b.payment(t, p.ID).Status; got != domain.Paid {
		t.Errorf("payment is %s", got)
	}
}

// TestForeignStreamsAreLeftAlone: a second data directory on the same server.
func TestForeignStreamsAreLeftAlone(t *testing.T) {
	t.Parallel()
	e, first, second := newExternal(t), newBook(t), newBook(t)
	e.start(t)
	c := e.connect(t)
	first.routed(t)
	run(t, newRelay(c, first).Run)
	run(t, newEnforcer(t, c, first).Run)
	sameAsLog(t, c.JetStream(), first)
	eventually(t, "SIGNALS is there", func() bool {
		_, err := c.JetStream().Stream(t.Context(), SignalsStream)
		return err == nil
	})

	other := e.connect(t)
	id := second.create(t, time.Hour)
	metrics := prometheus.NewRegistry()
	r, w, enforcer := measuredRelay(other, second, metrics), newWorkers(t, other, second), newEnforcer(t, other, second)
	if err := r.Check(t.Context()); !isForeign(err) || !strings.Contains(err.Error(), first.logID.String()) {
		t.Errorf("check: %v", err)
	}
	run(t, r.Run)
	run(t, w.Run)
	run(t, enforcer.Run)
	for what, trouble := range map[string]func() error{"relay": r.Err, "workers": w.Err, "enforcer": enforcer.Err} {
		eventually(t, what+" refuses", func() bool { return isForeign(trouble()) })
	}
	if up, refuses := measured(t, metrics, "payledger_relay_up"), measured(t, metrics, "payledger_relay_refuses"); up != 0 || refuses != 1 {
		t.Errorf("up %v, refuses %v", up, refuses)
	}
	p := first.routed(t)
	sandbox := acquirer.NewSandbox(acquirer.Env{NATS: c.NATS(), Now: time.Now})
	if reply, err := sandbox.SignalPayment(within(t), p, domain.OutcomePaid, "ref"); err != nil || reply.Result != domain.SignalApplied {
		t.Errorf("%+v, %v", reply, err)
	}
	sameAsLog(t, c.JetStream(), first)
	if got := second.payment(t, id).Status; got != domain.Created {
		t.Errorf("the second ledger's payment is %s", got)
	}
}

func isForeign(err error) bool { return errors.As(err, new(*ForeignStreamError)) }

// TestRestoredBackupIsRefused: the copy outside is longer than the log. When
// the operator has deleted it, the relay goes on by itself.
func TestRestoredBackupIsRefused(t *testing.T) {
	t.Parallel()
	e, b, longer := newExternal(t), newBook(t), newBook(t)
	longer.logID = b.logID
	for range 10 {
		longer.routed(t)
	}
	e.start(t)
	c := e.connect(t)
	copyOnce(t, c, longer)
	b.routed(t)
	r := newRelay(c, b)
	run(t, r.Run)
	eventually(t, "the relay refuses", func() bool { return isForeign(r.Err()) })
	if err := c.JetStream().DeleteStream(t.Context(), EventsStream); err != nil {
		t.Fatal(err)
	}
	sameAsLog(t, c.JetStream(), b)
	eventually(t, "the relay is content", func() bool { return r.Err() == nil })
}

func TestSubjectsTakenByAnotherStreamAreRefused(t *testing.T) {
	t.Parallel()
	e, b := newExternal(t), newBook(t)
	e.start(t)
	c := e.connect(t)
	eventually(t, "JetStream is there", func() bool {
		_, err := c.JetStream().CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"payledger.>"}})
		return err == nil
	})
	if err := newRelay(c, b).Check(t.Context()); !isForeign(err) {
		t.Errorf("%v", err)
	}
}

func TestConnectRefusesMalformedURLsWithoutTellingPasswords(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"nats://user:secret@host:port", "http://user:secret@host:4222", "nats://user:secret@", "nats://user:secret@host::",
		"nats://localhost:4222,user:secret@banana::", "nats://::1:4222", "nats://localhost:4222,",
	} {
		c, err := Connect(bad, zerolog.Nop())
		if err == nil {
			c.Close()
			t.Errorf("%s: connected", bad)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
	for _, good := range []string{"localhost", "127.0.0.1:4222", "nats://a:4222, tls://b", "ws://[::1]:8080"} {
		for server := range strings.SplitSeq(good, ",") {
			if err := checkServer(strings.TrimSpace(server)); err != nil {
				t.Errorf("%s: %v", good, err)
			}
		}
	}
}

func TestAwayFromTheStartIsSaid(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	c, err := Connect("nats://user:secret@127.0.0.1:1", zerolog.New(&said).Level(zerolog.WarnLevel))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !strings.Contains(said.String(), "NATS is away") || strings.Contains(said.String(), "secret") {
		t.Errorf("log: %s", said.String())
	}
}

func TestClosingWhileAway(t *testing.T) {
	t.Parallel()
	e := newExternal(t)
	c, err := Connect(e.url(), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	b := newBook(t)
	if err := newRelay(c, b).Run(ctx); err != nil {
		t.Error(err)
	}
	sandbox := acquirer.NewSandbox(acquirer.Env{NATS: c.NATS(), Now: time.Now})
	if _, err := sandbox.SignalPayment(ctx, b.routed(t), domain.OutcomePaid, "ref"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	c.Close()
}

// TestWatchdogLeavesAnExternalServerAlone: while it is away the watchdog says
// what waits, and afterwards that nothing does. It deletes nothing there.
func TestWatchdogLeavesAnExternalServerAlone(t *testing.T) {
	t.Parallel()
	e, b := newExternal(t), newBook(t)
	e.start(t)
	c := e.connect(t)
	config := WatchdogConfig{
		Conn: c, Relay: newRelay(c, b), Workers: newWorkers(t, c, b), Enforcer: newEnforcer(t, c, b),
		Stall: 100 * time.Millisecond, MaxPause: 200 * time.Millisecond, Log: zerolog.Nop(),
	}
	w := NewWatchdog(config)
	for _, part := range []func(context.Context) error{config.Relay.Run, config.Workers.Run, config.Enforcer.Run, w.Run} {
		run(t, part)
	}
	b.create(t, time.Hour)
	allRouted(t, b)
	sameAsLog(t, c.JetStream(), b)
	was := created(t, c, EventsStream)
	e.kill()
	b.create(t, time.Hour)
	eventually(t, "it tells what waits", func() bool {
		d := w.Degraded()
		return slices.Contains(d, "Providers' outcomes wait.") && len(d) > 1
	})
	e.start(t)
	allRouted(t, b)
	eventually(t, "it tells that nothing waits", func() bool { return len(w.Degraded()) == 0 })
	if now := created(t, c, EventsStream); now != was {
		t.Errorf("%s was made at %s, now at %s", EventsStream, was, now)
	}
}

// TestDamagedExternalCopyIsMadeAnew once the operator has deleted it, in the
// running process.
func TestDamagedExternalCopyIsMadeAnew(t *testing.T) {
	t.Parallel()
	e, b := newExternal(t), newBook(t)
	e.start(t)
	for range 800 { // more than are compared at the start
		b.create(t, time.Hour)
	}
	c := e.connect(t)
	if _, err := c.JetStream().CreateStream(t.Context(), eventsConfig(b.logID)); err != nil {
		t.Fatal(err)
	}
	const bad = 5 // further back than is compared at the start
	for _, r := range b.records(t) {
		m, err := eventMessage(b.logID, r)
		if err != nil {
			t.Fatal(err)
		}
		if r.Position == bad {
			m.Data = []byte("{}")
		}
		if _, err := c.JetStream().PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	r := newRelay(c, b)
	run(t, r.Run)
	eventually(t, "the copy is taken for whole", func() bool { return r.Position() == b.last(t) && r.Err() == nil })
	c.doubt(bad)
	var foreign *ForeignStreamError
	eventually(t, "the relay refuses it", func() bool { return errors.As(r.Err(), &foreign) })
	if err := c.JetStream().DeleteStream(t.Context(), EventsStream); err != nil {
		t.Fatal(err)
	}
	sameAsLog(t, c.JetStream(), b)
	eventually(t, "the relay works", func() bool { return r.Err() == nil })
}
