package notifier

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/connector"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/notifiertest"
)

// external is a nats-server process.
type external struct {
	dir, addr string
	process   *exec.Cmd
}

func newExternal(t *testing.T) *external {
	t.Helper()
	if testing.Short() {
		t.Skip("runs a nats-server process")
	}
	e := &external{dir: t.TempDir(), addr: healthtest.FreeAddress(t)}
	t.Cleanup(e.kill)
	return e
}

func (e *external) url() string { return "nats://" + e.addr }

func (e *external) start(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(e.addr)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e.process = &exec.Cmd{Path: self, Args: []string{natsServer, "-js", "-sd", e.dir, "-a", host, "-p", port}}
	if err := e.process.Start(); err != nil {
		t.Fatal(err)
	}
	healthtest.Eventually(t, "the server listens", func() bool {
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

func (e *external) connect(t *testing.T) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(bus.External{URL: e.url()}, zerolog.Nop())
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
	e, b := newExternal(t), bustest.NewBook(t)
	c := e.connect(t)
	if c.Err() == nil || c.Embedded() {
		t.Error("connected to nothing")
	}
	metrics := prometheus.NewRegistry()
	r := measuredRelay(c, b, metrics)
	healthtest.Run(t, r.Run)
	healthtest.Run(t, notifiertest.Workers(t, b).Run)
	healthtest.Run(t, notifiertest.Enforcer(t, c, b).Run)
	for range 20 {
		b.Create(t, time.Hour)
	}
	healthtest.Eventually(t, "the relay is in trouble", func() bool { return r.Err() != nil })
	if up, refuses := healthtest.Measured(t, metrics, "payledger_relay_up"), healthtest.Measured(t, metrics, "payledger_relay_refuses"); up != 0 || refuses != 0 {
		t.Errorf("up %v, refuses %v", up, refuses)
	}
	e.start(t)
	bustest.AllRouted(t, b)
	bustest.SameAsLog(t, c.JetStream(), b)
	healthtest.Eventually(t, "the relay is up", func() bool { return healthtest.Measured(t, metrics, "payledger_relay_up") == 1 })

	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				b.Create(t, time.Hour)
				time.Sleep(time.Millisecond)
			}
		}
	})
	outages := 2
	if os.Getenv("PAYLEDGER_LONG") != "" {
		outages = 4
	}
	for i := range outages {
		from := r.Position()
		healthtest.Eventually(t, "the copy goes on", func() bool { return r.Position() > from+20 })
		e.kill()
		if i == outages-1 {
			if err := os.RemoveAll(e.dir); err != nil {
				t.Fatal(err)
			}
		}
		e.start(t)
	}
	close(stop)
	writer.Wait()
	bustest.AllRouted(t, b)
	bustest.SameAsLog(t, c.JetStream(), b)

	p := b.Routed(t)
	sandbox := connector.NewSandbox(c.NATS(), time.Now)
	if reply, err := sandbox.SignalPayment(healthtest.Within(t), p, domain.OutcomePaid, "ref"); err != nil || reply.Result != domain.SignalApplied {
		t.Errorf("%+v, %v", reply, err)
	}
}

// TestSignalsSurviveAnOutage: what was sent while the enforcer was away is
// judged when it is back, and a sender that waits is answered.
func TestSignalsSurviveAnOutage(t *testing.T) {
	t.Parallel()
	e, b := newExternal(t), bustest.NewBook(t)
	e.start(t)
	c := e.connect(t)
	stop := healthtest.Run(t, notifiertest.Enforcer(t, c, b).Run)
	healthtest.Eventually(t, "the JetStream stream is there", func() bool {
		_, err := c.JetStream().Stream(t.Context(), bus.SignalsStream)
		return err == nil
	})
	stop()
	p := b.Routed(t)
	answered := make(chan domain.SignalReply, 1)
	sandbox := connector.NewSandbox(e.connect(t).NATS(), time.Now)
	ctx := healthtest.Within(t)
	go func() {
		reply, err := sandbox.SignalPayment(ctx, p, domain.OutcomePaid, "ref")
		if err != nil {
			t.Error(err)
		}
		answered <- reply
	}()
	healthtest.Eventually(t, "the signal waits", func() bool {
		s, err := c.JetStream().Stream(t.Context(), bus.SignalsStream)
		return err == nil && s.CachedInfo().State.Msgs > 0
	})
	e.kill()
	e.start(t)
	healthtest.Run(t, notifiertest.Enforcer(t, c, b).Run)
	if reply := <-answered; reply.Result != domain.SignalApplied && reply.Result != domain.SignalUnchanged {
		t.Errorf("%+v", reply)
	}
	if got := b.Payment(t, p.ID).Status; got != domain.Paid {
		t.Errorf("payment is %s", got)
	}
}

// TestSignalsOfAnEarlierRunAreJudged: what waits is judged, delivered before or not, and what is
// sent through a route that was known once goes on to be taken.
func TestSignalsOfAnEarlierRunAreJudged(t *testing.T) {
	t.Parallel()
	e := newExternal(t)
	e.start(t)
	for name, c := range map[string]*bus.Conn{
		"external": e.connect(t), "embedded": bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, js := bustest.NewBook(t), c.JetStream()
			s, err := js.CreateStream(t.Context(), bus.SignalsConfig(b.LogID, []string{"gone"}))
			if err != nil {
				t.Fatal(err)
			}
			consumer, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "enforcer", AckPolicy: jetstream.AckExplicitPolicy})
			if err != nil {
				t.Fatal(err)
			}
			var payments []domain.Payment
			for range 3 {
				payments = append(payments, b.Routed(t))
			}
			send := func(route string, p domain.Payment) {
				if _, err := js.Publish(healthtest.Within(t), bus.SignalSubject(route, p.Project, p.ID), bustest.Encode(t, bustest.Paid(p))); err != nil {
					t.Fatal(err)
				}
			}
			send(domain.SandboxRoute, payments[0])
			if _, err := consumer.Next(); err != nil {
				t.Fatal(err)
			}
			send(domain.SandboxRoute, payments[1])
			send("gone", payments[2])
			for range 2 { // runs
				stop := healthtest.Run(t, notifiertest.Enforcer(t, c, b).Run)
				healthtest.Eventually(t, "all are judged", func() bool {
					info, err := s.Info(t.Context())
					return err == nil && info.State.Msgs == 0 && info.State.Consumers == 2
				})
				for i, want := range []domain.PaymentStatus{domain.Paid, domain.Paid, domain.AwaitingPayment} {
					if got := b.Payment(t, payments[i].ID); got.Status != want || len(got.Signals) != 1 {
						t.Errorf("payment %d: %s, %+v", i, got.Status, got.Signals)
					}
				}
				stop()
				send("gone", payments[2])
			}
			if _, err := js.Publish(healthtest.Within(t), bus.SignalSubject("unknown", bustest.Project, payments[0].ID), nil); !errors.Is(err, jetstream.ErrNoStreamResponse) {
				t.Errorf("a signal of no route: %v", err)
			}
		})
	}
}

// TestForeignStreamsAreLeftAlone: a second data directory on the same server.
func TestForeignStreamsAreLeftAlone(t *testing.T) {
	t.Parallel()
	e, first, second := newExternal(t), bustest.NewBook(t), bustest.NewBook(t)
	e.start(t)
	c := e.connect(t)
	first.Routed(t)
	healthtest.Run(t, relayOf(c, first).Run)
	healthtest.Run(t, notifiertest.Enforcer(t, c, first).Run)
	bustest.SameAsLog(t, c.JetStream(), first)
	healthtest.Eventually(t, "SIGNALS is there", func() bool {
		_, err := c.JetStream().Stream(t.Context(), bus.SignalsStream)
		return err == nil
	})

	other := e.connect(t)
	id := second.Create(t, time.Hour)
	metrics := prometheus.NewRegistry()
	r, enforcer := measuredRelay(other, second, metrics), notifiertest.Enforcer(t, other, second)
	if err := r.Check(t.Context()); !isForeign(err) || !strings.Contains(err.Error(), first.LogID.String()) {
		t.Errorf("check: %v", err)
	}
	healthtest.Run(t, r.Run)
	healthtest.Run(t, enforcer.Run)
	for what, trouble := range map[string]func() error{"relay": r.Err, "enforcer": enforcer.Err} {
		healthtest.Eventually(t, what+" refuses", func() bool { return isForeign(trouble()) })
	}
	if up, refuses := healthtest.Measured(t, metrics, "payledger_relay_up"), healthtest.Measured(t, metrics, "payledger_relay_refuses"); up != 0 || refuses != 1 {
		t.Errorf("up %v, refuses %v", up, refuses)
	}
	p := first.Routed(t)
	sandbox := connector.NewSandbox(c.NATS(), time.Now)
	if reply, err := sandbox.SignalPayment(healthtest.Within(t), p, domain.OutcomePaid, "ref"); err != nil || reply.Result != domain.SignalApplied {
		t.Errorf("%+v, %v", reply, err)
	}
	bustest.SameAsLog(t, c.JetStream(), first)
	if got := second.Payment(t, id).Status; got != domain.Created {
		t.Errorf("the second ledger's payment is %s", got)
	}
}

func isForeign(err error) bool { return errors.As(err, new(*bus.ForeignStreamError)) }

// TestRestoredBackupIsRefused: the copy outside is longer than the log. When
// the operator has deleted it, the relay goes on by itself.
func TestRestoredBackupIsRefused(t *testing.T) {
	t.Parallel()
	e, b, longer := newExternal(t), bustest.NewBook(t), bustest.NewBook(t)
	longer.LogID = b.LogID
	for range 10 {
		longer.Routed(t)
	}
	e.start(t)
	c := e.connect(t)
	copyOnce(t, c, longer)
	b.Routed(t)
	r := relayOf(c, b)
	healthtest.Run(t, r.Run)
	healthtest.Eventually(t, "the relay refuses", func() bool { return isForeign(r.Err()) })
	if err := c.JetStream().DeleteStream(t.Context(), bus.EventsStream); err != nil {
		t.Fatal(err)
	}
	bustest.SameAsLog(t, c.JetStream(), b)
	healthtest.Eventually(t, "the relay is content", func() bool { return r.Err() == nil })
}

func TestSubjectsTakenByAnotherStreamAreRefused(t *testing.T) {
	t.Parallel()
	e, b := newExternal(t), bustest.NewBook(t)
	e.start(t)
	c := e.connect(t)
	healthtest.Eventually(t, "JetStream is there", func() bool {
		_, err := c.JetStream().CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"payledger.>"}})
		return err == nil
	})
	if err := relayOf(c, b).Check(t.Context()); !isForeign(err) {
		t.Errorf("%v", err)
	}
}

func TestClosingWhileAway(t *testing.T) {
	t.Parallel()
	e := newExternal(t)
	c, err := bus.Connect(bus.External{URL: e.url()}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	b := bustest.NewBook(t)
	if err := relayOf(c, b).Run(ctx); err != nil {
		t.Error(err)
	}
	sandbox := connector.NewSandbox(c.NATS(), time.Now)
	if _, err := sandbox.SignalPayment(ctx, b.Routed(t), domain.OutcomePaid, "ref"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	c.Close()
}

// TestWatchdogLeavesAnExternalServerAlone: while it is away the watchdog says
// what waits, and afterwards that nothing does. It deletes nothing there.
func TestWatchdogLeavesAnExternalServerAlone(t *testing.T) {
	t.Parallel()
	e, b := newExternal(t), bustest.NewBook(t)
	e.start(t)
	c := e.connect(t)
	config := WatchdogConfig{
		Conn: c, Relay: relayOf(c, b), Enforcer: notifiertest.Enforcer(t, c, b),
		Stall: 100 * time.Millisecond, MaxPause: 200 * time.Millisecond, Log: zerolog.Nop(),
	}
	w := NewWatchdog(config)
	for _, part := range []func(context.Context) error{notifiertest.Workers(t, b).Run, config.Relay.Run, config.Enforcer.Run, w.Run} {
		healthtest.Run(t, part)
	}
	b.Create(t, time.Hour)
	bustest.AllRouted(t, b)
	bustest.SameAsLog(t, c.JetStream(), b)
	was := bustest.Created(t, c, bus.EventsStream)
	e.kill()
	b.Create(t, time.Hour)
	healthtest.Eventually(t, "it tells what waits", func() bool {
		d := w.Degraded()
		return slices.Contains(d, "Providers' outcomes wait.") && len(d) > 1
	})
	e.start(t)
	bustest.AllRouted(t, b)
	healthtest.Eventually(t, "it tells that nothing waits", func() bool { return len(w.Degraded()) == 0 })
	if now := bustest.Created(t, c, bus.EventsStream); now != was {
		t.Errorf("%s was made at %s, now at %s", bus.EventsStream, was, now)
	}
}

// TestDamagedExternalCopyIsMadeAnew once the operator has deleted it, in the
// running process.
func TestDamagedExternalCopyIsMadeAnew(t *testing.T) {
	t.Parallel()
	e, b := newExternal(t), bustest.NewBook(t)
	e.start(t)
	for range 8 {
		b.Create(t, time.Hour)
	}
	c := e.connect(t)
	if _, err := c.JetStream().CreateStream(t.Context(), bus.EventsConfig(b.LogID)); err != nil {
		t.Fatal(err)
	}
	const bad = 5
	for _, r := range b.Records(t) {
		m, err := bus.EventMessage(b.LogID, r)
		if err != nil {
			t.Fatal(err)
		}
		if r.Position == bad {
			m.Data = []byte("{}")
		}
		if _, err := c.JetStream().PublishMsg(healthtest.Within(t), m); err != nil {
			t.Fatal(err)
		}
	}
	r := relayOf(c, b)
	healthtest.Run(t, r.Run)
	var foreign *bus.ForeignStreamError
	healthtest.Eventually(t, "the relay refuses it", func() bool { return errors.As(r.Err(), &foreign) })
	if err := c.JetStream().DeleteStream(t.Context(), bus.EventsStream); err != nil {
		t.Fatal(err)
	}
	bustest.SameAsLog(t, c.JetStream(), b)
	healthtest.Eventually(t, "the relay works", func() bool { return r.Err() == nil })
}
