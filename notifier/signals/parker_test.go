package signals

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

// poison publishes so many messages that are no signals, each of so many bytes.
func (c *court) poison(t *testing.T, n, size int) {
	t.Helper()
	for i := range n {
		m := &nats.Msg{
			Subject: bus.SignalSubject("bank", bustest.Project, c.IDs.Next()),
			Data:    append(fmt.Appendf(nil, "poison %d ", i), bytes.Repeat([]byte("x"), size)...),
			Header:  nats.Header{bus.ReplyHeader: {"_INBOX.nobody.reads"}},
		}
		if err := c.conn.NATS().PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.conn.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
}

func (c *court) parkedState(t *testing.T) *jetstream.StreamInfo {
	t.Helper()
	s, err := c.conn.JetStream().Stream(t.Context(), bus.ParkedStream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo()
}

// TestParkingThatFailsStopsNothing: PARKED cannot even be made, and more comes
// than a batch on its way there. When it can, all of it is parked.
func TestParkingThatFailsStopsNothing(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	c := &court{Book: b, conn: bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))}
	if _, err := c.conn.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{bus.ParkedSubject}}); err != nil {
		t.Fatal(err)
	}
	c.enforcer = judging(t, c.conn, b)
	c.enforcer.parker.watch = 10 * time.Millisecond
	healthtest.Run(t, c.enforcer.Run)
	c.ready(t)
	if page, err := c.enforcer.Parked().List(t.Context(), 0, "", 10); err != nil || len(page.Data) > 0 {
		t.Errorf("none are parked: %+v, %v", page, err)
	}
	const all = 7000
	c.poison(t, all, 10)
	for _, route := range []string{domain.SandboxRoute, "bank"} { // the poison's route, too
		p := c.Routed(t)
		s := bustest.Paid(p)
		s.Route = route
		want := domain.SignalApplied
		if route != p.Route {
			want = domain.SignalRefused
		}
		if reply := c.signal(t, p, s); reply.Result != want {
			t.Errorf("%+v", reply)
		}
	}
	if c.enforcer.Err() != nil || c.enforcer.parker.trouble.Err() == nil {
		t.Errorf("%v, %v", c.enforcer.Err(), c.enforcer.parker.trouble.Err())
	}
	if !c.enforcer.ParkingFails() {
		t.Error("it does not say that parking fails")
	}
	healthtest.Eventually(t, "it says what waits", func() bool { return c.enforcer.unfinished.Load() == all })
	if err := c.conn.JetStream().DeleteStream(t.Context(), "OTHER"); err != nil {
		t.Fatal(err)
	}
	c.drained(t)
	if n, shed := c.parkedState(t).State.Msgs, testutil.ToFloat64(c.enforcer.sheds); n != all || shed != 0 {
		t.Errorf("%d parked, %v let go", n, shed)
	}
	if err := c.enforcer.parker.trouble.Err(); err != nil || c.enforcer.ParkingFails() {
		t.Errorf("%v, %t", err, c.enforcer.ParkingFails())
	}
}

// TestOpeningParkedHoldsUpNothing: a signal that cannot be judged does not wait for a JetStream that does
// not answer.
func TestOpeningParkedHoldsUpNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := make(chan struct{})
	go func() { // a server that answers nothing but pings
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintf(c, "INFO {\"version\":\"2.15.2\",\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n")
		for lines := bufio.NewScanner(c); lines.Scan(); {
			switch line := lines.Text(); {
			case line == "PING":
				fmt.Fprint(c, "PONG\r\n")
			case strings.Contains(line, "STREAM.INFO."+bus.ParkedStream):
				close(asked)
			}
		}
	}()
	conn, err := bus.Connect(bus.External{URL: "nats://" + l.Addr().String()}, healthtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := judging(t, conn, bustest.NewBook(t)).parker
	ctx, cancel := context.WithCancel(healthtest.Within(t))
	defer cancel()
	opened := make(chan struct{})
	go func() { defer close(opened); p.open(ctx) }()
	<-asked
	if p.park(ctx, newSignal("payledger.v1.signals.bank.poison", 1, time.Now(), nil, nil), ParkedMalformed, "") {
		t.Error("it is parked nowhere")
	}
	select {
	case <-opened:
		t.Error("a signal waited until PARKED was opened")
	default:
	}
	cancel()
	<-opened
}

// TestAFullParkedGivesWay, also one that was made and filled when it did not.
func TestAFullParkedGivesWay(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	c := &court{Book: b, conn: bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))}
	before := bus.ParkedConfig(b.LogID)
	before.Discard, before.MaxBytes = jetstream.DiscardNew, 16<<10
	if _, err := c.conn.JetStream().CreateStream(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	old := 0
	for ; ; old++ {
		if _, err := c.conn.JetStream().Publish(healthtest.Within(t), bus.ParkedSubject, fmt.Appendf(nil, "old %d %s", old, strings.Repeat("x", 500))); err != nil {
			break
		}
	}
	c.enforcer = judging(t, c.conn, b)
	var log healthtest.Buffer
	parker := c.enforcer.parker
	parker.fill.log, parker.watch, parker.stream.MaxBytes = zerolog.New(&log), 10*time.Millisecond, 64<<10
	healthtest.Run(t, c.enforcer.Run)
	c.ready(t)
	if reply := c.send(t, "payledger.v1.signals.bank.more", []byte("poison")); reply.Result != domain.SignalParked {
		t.Fatalf("%+v", reply)
	}
	if info := c.parkedState(t); info.State.Msgs != uint64(old)+1 || info.Config.Discard != jetstream.DiscardOld {
		t.Errorf("%d of %d are left, %v", info.State.Msgs, old+1, info.Config.Discard)
	}
	healthtest.Eventually(t, "it looks how full PARKED is", func() bool {
		parker.fill.mu.Lock()
		defer parker.fill.mu.Unlock()
		return parker.fill.looked
	})
	const all = 60
	c.poison(t, all, 15_000) // of which 4 KiB are kept
	p := c.Routed(t)
	if reply := c.signal(t, p, bustest.Paid(p)); reply.Result != domain.SignalApplied {
		t.Errorf("%+v", reply)
	}
	c.drained(t)
	info := c.parkedState(t)
	if info.State.LastSeq != uint64(old)+1+all || info.State.Msgs < 10 || info.State.Msgs > 20 {
		t.Errorf("%d of %d are left", info.State.Msgs, info.State.LastSeq)
	}
	healthtest.Eventually(t, "what gave way is counted", func() bool { return parker.fill.gaveWay() == float64(info.State.LastSeq-info.State.Msgs) })
	if !strings.Contains(log.String(), `"level":"error"`) || !strings.Contains(log.String(), "payledger signals parked") {
		t.Errorf("no alarm: %s", log.String())
	}
	s, err := c.conn.JetStream().Stream(t.Context(), bus.ParkedStream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetMsg(t.Context(), info.State.LastSeq)
	if err != nil || len(m.Data) != maxParkedBody || m.Header.Get(headerParkedCut) == "" {
		t.Errorf("%d bytes, %v, %v", len(m.Data), m.Header, err)
	}
}

// TestParkedSignalsAreKeptSmallAndWhole: a signal with many bytes and little to
// say can still be sent again.
func TestParkedSignalsAreKeptSmallAndWhole(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	p := c.Payment(t, c.Create(t, time.Hour))
	p.ID = c.IDs.Next()
	s := bustest.Paid(p)
	body := append(bytes.Repeat([]byte(" "), 15_000), bustest.Encode(t, s)...)
	if reply := c.send(t, bus.SignalSubject(s.Route, p.Project, p.ID), body); reply.Reason != ParkedUnknownPayment {
		t.Fatalf("%+v", reply)
	}
	parked, err := c.conn.JetStream().Stream(t.Context(), bus.ParkedStream)
	if err != nil {
		t.Fatal(err)
	}
	m, err := parked.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := bus.DecodeSignal(s.Route, m.Data); err != nil || got != s || m.Header.Get(headerParkedCut) != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestParkedSignalsOfAnySubjectAreListed: a subject need not be text.
func TestParkedSignalsOfAnySubjectAreListed(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	c.send(t, bus.SignalsPrefix+"bank.\xff\xfe", []byte("poison"))
	c.send(t, bus.SignalsPrefix+"bank."+strings.Repeat("long", 800), []byte("poison"))
	page, err := c.enforcer.Parked().List(t.Context(), 0, "", 10)
	if err != nil || len(page.Data) != 2 || len(page.Data[1].Subject) != maxSubject {
		t.Fatalf("%+v, %v", page, err)
	}
	if _, err := json.Marshal(page); err != nil {
		t.Error(err)
	}
}

// TestParkedSignalsAreRetriedAndDiscarded: a payment that is there now, as after
// a restore.
func TestParkedSignalsAreRetriedAndDiscarded(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	parked := c.enforcer.Parked()
	p := c.Routed(t)
	known := bustest.Encode(t, bustest.Paid(p))
	subject := bus.SignalSubject(p.Route, p.Project, p.ID)
	// Parked by an enforcer that did not know the payment.
	if _, err := c.conn.JetStream().PublishMsg(healthtest.Within(t), &nats.Msg{
		Subject: bus.ParkedSubject, Data: known, Header: nats.Header{HeaderParkedSubject: {subject}, HeaderParkedReason: {ParkedUnknownPayment}},
	}); err != nil {
		t.Fatal(err)
	}
	c.send(t, subject, []byte("poison"))
	c.send(t, subject, bytes.Repeat([]byte("long"), maxParkedBody/2))
	for id, want := range map[uint64]string{1: "applied ", 2: "parked malformed", 3: "parked cut"} {
		reply, found, err := parked.Retry(healthtest.Within(t), id)
		if err != nil || !found || reply.Result+" "+reply.Reason != want {
			t.Errorf("%d: %+v, %v, %v", id, reply, found, err)
		}
	}
	if got := c.Payment(t, p.ID); got.Status != domain.Paid {
		t.Errorf("the payment is %s", got.Status)
	}
	// Parked when SIGNALS took those of any route.
	if _, err := c.conn.JetStream().PublishMsg(healthtest.Within(t), &nats.Msg{
		Subject: bus.ParkedSubject, Data: known, Header: nats.Header{HeaderParkedSubject: {bus.SignalSubject("unknown", p.Project, p.ID)}},
	}); err != nil {
		t.Fatal(err)
	}
	if reply, found, err := parked.Retry(healthtest.Within(t), 5); err != nil || !found || reply.Reason != parkedUnknownRoute {
		t.Errorf("%+v, %v, %v", reply, found, err)
	}
	if found, err := parked.Discard(t.Context(), 5); !found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	page, err := parked.List(t.Context(), 0, "", 1)
	if err != nil || page.Signals != 2 || len(page.Data) != 1 || page.Data[0].ID != 3 || !page.Data[0].Cut || page.Next != 3 || page.Last != 5 {
		t.Fatalf("%+v, %v", page, err)
	}
	if page, err = parked.List(t.Context(), page.Next, ParkedMalformed, 10); err != nil || len(page.Data) != 1 || page.Next != 0 || page.Data[0].Body != "poison" {
		t.Fatalf("%+v, %v", page, err)
	}
	if found, err := parked.Discard(t.Context(), 1); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if found, err := parked.Discard(t.Context(), 3); !found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	if n, err := parked.DiscardThrough(t.Context(), 5); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	// Ids that none has yet stay for those that come.
	if n, err := parked.DiscardThrough(t.Context(), 1_000_000_000_000); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := c.conn.JetStream().PublishMsg(healthtest.Within(t), &nats.Msg{Subject: bus.ParkedSubject, Data: known}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint64{1, 0} {
		if n, err := parked.DiscardThrough(t.Context(), math.MaxUint64); n != want || err != nil {
			t.Errorf("%d, %v; want %d", n, err, want)
		}
	}
	if page, err = parked.List(t.Context(), 0, "", 1); err != nil || page.Last != 6 || page.Signals != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	c.enforcer.parker.fill.set(c.parkedState(t))
	if n := c.enforcer.parker.fill.gaveWay(); n != 0 {
		t.Errorf("%v are said to have given way", n)
	}
}

// TestDiscardedDuringChecksDidNotGiveWay: PARKED is looked at all the time while signals are discarded.
func TestDiscardedDuringChecksDidNotGiveWay(t *testing.T) {
	t.Parallel()
	c := &court{Book: bustest.NewBook(t), conn: bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))}
	c.enforcer = judging(t, c.conn, c.Book)
	c.enforcer.parker.watch = time.Microsecond
	healthtest.Run(t, c.enforcer.Run)
	c.ready(t)
	const all = 200
	c.poison(t, all, 10)
	c.drained(t)
	parked := c.enforcer.Parked()
	for id := range uint64(all) {
		if found, err := parked.Discard(t.Context(), id+1); !found || err != nil {
			t.Fatal(found, err)
		}
	}
	c.poison(t, 1, 10)
	healthtest.Eventually(t, "one signal is left", func() bool {
		c.enforcer.parker.fill.mu.Lock()
		defer c.enforcer.parker.fill.mu.Unlock()
		return c.enforcer.parker.fill.state.LastSeq == all+1
	})
	if n := c.enforcer.parker.fill.gaveWay(); n != 0 {
		t.Errorf("%v are said to have given way", n)
	}
}

// TestDiscardedElsewhereDidNotGiveWay: a node that leads again does not count what was discarded
// while another one led.
func TestDiscardedElsewhereDidNotGiveWay(t *testing.T) {
	t.Parallel()
	c := &court{Book: bustest.NewBook(t), conn: bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))}
	mine, other := judging(t, c.conn, c.Book), judging(t, c.conn, c.Book)
	mine.parker.watch = 10 * time.Millisecond
	sees := func(parked uint64) {
		healthtest.Eventually(t, "it looks how full PARKED is", func() bool {
			mine.parker.fill.mu.Lock()
			defer mine.parker.fill.mu.Unlock()
			return mine.parker.fill.looked && mine.parker.fill.state.Msgs == parked
		})
	}
	stop := healthtest.Run(t, mine.Run)
	c.ready(t)
	c.send(t, "payledger.v1.signals.bank.more", []byte("poison"))
	sees(1)
	stop()
	if n, err := other.Parked().DiscardThrough(t.Context(), 1); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	healthtest.Run(t, mine.Run)
	sees(0)
	if n := mine.parker.fill.gaveWay(); n != 0 {
		t.Errorf("%v are said to have given way", n)
	}
}

// TestWhatGaveWayNeverFalls: a command takes signals between two checks, after others gave way. A counter
// that fell would be taken for one that started again from zero.
func TestWhatGaveWayNeverFalls(t *testing.T) {
	t.Parallel()
	var f parkedFill
	f.log = zerolog.Nop()
	check := func(lastSeq, msgs uint64, want float64) {
		t.Helper()
		f.set(&jetstream.StreamInfo{State: jetstream.StreamState{LastSeq: lastSeq, Msgs: msgs}})
		if n := f.gaveWay(); n != want {
			t.Errorf("%v gave way, want %v", n, want)
		}
	}
	check(10, 10, 0)
	check(14, 10, 4)
	f.took(3)
	if n := f.gaveWay(); n != 4 {
		t.Errorf("%v gave way once a command has taken three, want 4", n)
	}
	check(14, 7, 4)
	check(16, 7, 6)
	check(2, 2, 0) // it is another JetStream stream
}
