package notifier

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/notifiertest"
	"payledger/notifier/signals"
)

// site is a ledger with everything that runs on JetStream.
type site struct {
	*bustest.Book
	dir      string // of NATS
	srv      *embedded.Server
	conn     *bus.Conn
	relay    *Relay
	enforcer *signals.Enforcer
	watchdog *Watchdog
	signed   *bus.Checkpoints
	metrics  *prometheus.Registry
	stall    time.Duration // of the watchdog; 0: patience

	stop, stopEnforcer func()
}

// patience of the watchdog: one in a hurry takes slow work on a busy machine for work that
// does not move, and its repairs make it slower. So it repairs less often the longer that lasts.
const patience = 5 * time.Second

func newSite(t *testing.T, dir string) *site {
	t.Helper()
	s := &site{Book: bustest.NewBook(t), dir: dir}
	s.start(t)
	return s
}

func (s *site) start(t *testing.T) {
	t.Helper()
	s.metrics = prometheus.NewRegistry()
	s.srv = bustest.StartServer(t, embedded.Config{Dir: s.dir, Metrics: s.metrics})
	s.conn = bustest.ConnectTo(t, s.srv)
	s.relay, s.enforcer = measuredRelay(s.conn, s.Book, s.metrics), notifiertest.Enforcer(t, s.conn, s.Book)
	s.watchdog = NewWatchdog(WatchdogConfig{
		Server: s.srv, Conn: s.conn, Relay: s.relay, Enforcer: s.enforcer,
		Stall: cmp.Or(s.stall, patience), MaxPause: healthtest.Patience, Log: healthtest.Log(t), Metrics: s.metrics,
	})
	s.signed = bus.NewCheckpoints(s.conn, s.LogID, healthtest.Log(t), nil)
	var stops []func()
	for _, part := range []func(context.Context) error{s.srv.Run, s.relay.Run, s.enforcer.Run, s.watchdog.Run, s.signed.Run, notifiertest.Workers(t, s.Book).Run} {
		stops = append(stops, healthtest.Run(t, part))
	}
	s.stopEnforcer = stops[2]
	s.stop = func() {
		for _, stop := range slices.Backward(stops) {
			stop()
		}
		s.conn.Close()
		s.srv.Shutdown()
	}
}

// works checks that all goes well: new payments are routed, their outcomes are
// judged, nothing waits, EVENTS is the log and in the log nothing came twice.
func (s *site) works(t *testing.T) {
	t.Helper()
	s.pays(t, 10)
	signed := []byte(time.Now().String())
	s.signed.Publish(signed)
	bustest.SameAsLog(t, s.conn.JetStream(), s.Book)
	paid := map[string]int{}
	for _, r := range s.Records(t) {
		if typ, err := eventstore.TypeOf(r.Body); err == nil && typ == domain.TypePaymentPaid {
			paid[r.Stream.ID]++
		}
	}
	for id, n := range paid {
		if n > 1 {
			t.Errorf("payment %s was paid %d times", id, n)
		}
	}
	healthtest.Eventually(t, "nothing waits", func() bool {
		ctx, cancel := s.conn.WhileConnected(t.Context())
		defer cancel()
		signals, err := s.conn.JetStream().Stream(ctx, bus.SignalsStream)
		return err == nil && signals.CachedInfo().State.Msgs == 0 && len(s.watchdog.Degraded()) == 0
	})
	healthtest.Eventually(t, "the checkpoint is published", func() bool {
		ctx, cancel := s.conn.WhileConnected(t.Context())
		defer cancel()
		checkpoints, err := s.conn.JetStream().Stream(ctx, bus.CheckpointsStream)
		if err != nil {
			return false
		}
		last, err := checkpoints.GetLastMsgForSubject(ctx, bus.CheckpointsSubject)
		return err == nil && bytes.Equal(last.Data, signed)
	})
}

func (s *site) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir, natsserver.JetStreamStoreDir, embedded.AccountLedger, "streams"}, elem...)...)
}

// pays makes payments and sends what the provider says of each as a connector does.
func (s *site) pays(t *testing.T, n int) {
	t.Helper()
	var all []domain.ID
	for range n {
		all = append(all, s.Create(t, time.Hour))
	}
	s.resends(t, all)
}

// resends sends what the provider says of payments, again until it is answered.
func (s *site) resends(t *testing.T, all []domain.ID) {
	t.Helper()
	told := make(map[domain.ID]time.Time) // of what is not yet paid
	for _, id := range all {
		told[id] = time.Time{}
	}
	healthtest.Eventually(t, "all is routed and paid", func() bool {
		for id, last := range told {
			switch p := s.Payment(t, id); {
			case p.Status == domain.Paid:
				delete(told, id)
			case p.Status == domain.AwaitingPayment && time.Since(last) > 200*time.Millisecond:
				s.tell(t, p)
				told[id] = time.Now()
			}
		}
		return len(told) == 0
	})
}

// tell publishes the signal that pays p, once.
func (s *site) tell(t *testing.T, p domain.Payment) {
	t.Helper()
	_ = s.conn.NATS().PublishMsg(&nats.Msg{
		Subject: bus.SignalSubject(domain.SandboxRoute, p.Project, p.ID), Data: bustest.Encode(t, bustest.Paid(p)),
	})
}

// hostile are the ways in which a file is damaged.
func hostile() map[string]func([]byte) []byte {
	flip := func(part int) func([]byte) []byte {
		return func(b []byte) []byte {
			if len(b) > 0 {
				b[(len(b)-1)*part/4] ^= 0x10
			}
			return b
		}
	}
	return map[string]func([]byte) []byte{
		"empty": func([]byte) []byte { return nil },
		"zeros": func(b []byte) []byte { return make([]byte, len(b)) },
		"half":  func(b []byte) []byte { return b[:len(b)/2] },
		"bit":   flip(0), "bit in the middle": flip(2), "last bit": flip(4),
	}
}

func damage(t *testing.T, pattern string, how func([]byte) []byte) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, how(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedJetStream damages each file of JetStream's, in turns, while the
// server is stopped. Afterwards everything works, signals that waited are judged, those
// of a damaged SIGNALS when they are sent again, parked ones are kept, and the subscriber
// misses no event. Each file is damaged in
// one or two ways, and each way occurs; with PAYLEDGER_LONG each file in each way.
func TestDamagedJetStream(t *testing.T) {
	t.Parallel()
	const waiting, read = 6, 10
	for i, file := range []string{
		"EVENTS/meta.inf", "EVENTS/meta.sum", "EVENTS/msgs/*.blk", "EVENTS/msgs/index.db",
		"EVENTS/obs/subscriber/o.dat", "EVENTS/obs/subscriber/meta.inf", "EVENTS/obs/subscriber/meta.sum",
		"SIGNALS/meta.inf", "SIGNALS/meta.sum", "SIGNALS/msgs/*.blk", "SIGNALS/msgs/index.db",
		"PARKED/meta.inf", "PARKED/meta.sum", "CHECKPOINTS/meta.inf", "CHECKPOINTS/msgs/*.blk",
	} {
		kinds := slices.Sorted(maps.Keys(hostile()))
		for n, kind := range kinds {
			if kind == "zeros" && strings.Contains(file, "/meta.") || kind == "last bit" && !strings.Contains(file, "o.dat") {
				continue // as good as the others
			}
			if os.Getenv("PAYLEDGER_LONG") == "" && n != i%len(kinds) && n != (i+3)%len(kinds) {
				continue
			}
			t.Run(strings.ReplaceAll(file, "/", "_")+" "+kind, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, t.TempDir())
				s.works(t)
				s.subscriber(t, read)
				s.parks(t)
				s.stop()
				unjudged := s.unjudged(t, waiting)
				damage(t, s.path(file), hostile()[kind])
				s.start(t)
				s.works(t)
				if strings.HasPrefix(file, "SIGNALS/meta.") || file == "SIGNALS/msgs/*.blk" {
					s.resends(t, unjudged)
				}
				healthtest.Eventually(t, "the signals that waited are judged", func() bool { return s.open(t, unjudged) == 0 })
				if n := s.parked(t); n != 1 && !strings.HasPrefix(file, bus.ParkedStream) {
					t.Errorf("%d signals are parked, want 1", n)
				}
				if first := s.subscriber(t, 1); first > read+1 {
					t.Errorf("the subscriber goes on with %d, and had read %d", first, read)
				}
			})
		}
	}
}

// subscriber reads and acknowledges so many events and answers the first one's
// sequence.
func (s *site) subscriber(t *testing.T, n int) (first uint64) {
	t.Helper()
	var batch []jetstream.Msg
	healthtest.Eventually(t, "the subscriber is delivered to", func() bool {
		ctx, cancel := s.conn.WhileConnected(t.Context())
		defer cancel()
		c, err := s.conn.JetStream().Consumer(ctx, bus.EventsStream, bus.SubscriberConsumer)
		if err != nil {
			return false
		}
		fetched, err := c.Fetch(n-len(batch), jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return false
		}
		for m := range fetched.Messages() {
			if err := m.DoubleAck(healthtest.Within(t)); err != nil {
				t.Fatal(err)
			}
			batch = append(batch, m)
		}
		return len(batch) == n
	})
	meta, err := batch[0].Metadata()
	if err != nil {
		t.Fatal(err)
	}
	return meta.Sequence.Stream
}

// unjudged makes payments whose signals wait in SIGNALS. Nothing else runs.
func (s *site) unjudged(t *testing.T, n int) (all []domain.ID) {
	t.Helper()
	srv := bustest.StartServer(t, embedded.Config{Dir: s.dir})
	s.conn = bustest.ConnectTo(t, srv)
	for range n {
		p := s.Routed(t)
		all = append(all, p.ID)
		s.publish(t, p)
	}
	s.conn.Close()
	srv.Shutdown()
	return all
}

// open counts the payments that are not paid.
func (s *site) open(t *testing.T, all []domain.ID) (n int) {
	t.Helper()
	for _, id := range all {
		if s.Payment(t, id).Status != domain.Paid {
			n++
		}
	}
	return n
}

// TestOldEventIsComparedWithTheLog: a message of EVENTS is damaged that only
// subscribers read.
func TestOldEventIsComparedWithTheLog(t *testing.T) {
	t.Parallel()
	b, dir := bustest.NewBook(t), t.TempDir()
	srv := bustest.StartServer(t, embedded.Config{Dir: dir})
	for range 800 { // more than are compared at the start
		b.Create(t, time.Hour)
	}
	c := bustest.ConnectTo(t, srv)
	copyOnce(t, c, b)
	c.Close()
	srv.Shutdown()
	damage(t, (&site{dir: dir}).path(bus.EventsStream, "msgs", "1.blk"), func(b []byte) []byte {
		b[len(b)/8] ^= 0x10
		return b
	})
	metrics := prometheus.NewRegistry()
	c = bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{Dir: dir}))
	healthtest.Run(t, measuredRelay(c, b, metrics).Run)
	healthtest.Eventually(t, "the copy is rebuilt", func() bool { return healthtest.Measured(t, metrics, "payledger_relay_rebuilds_total") == 1 })
	bustest.SameAsLog(t, c.JetStream(), b)
}

// TestRemovedUnderTheServer removes parts of JetStream's directory while the
// server runs.
func TestRemovedUnderTheServer(t *testing.T) {
	t.Parallel()
	store := filepath.Join(natsserver.JetStreamStoreDir, embedded.AccountLedger)
	for _, what := range []string{
		"", natsserver.JetStreamStoreDir, store, filepath.Join(store, "streams"),
		"EVENTS", "EVENTS/msgs", "EVENTS/msgs/*.blk", "EVENTS/obs", "EVENTS/meta.inf",
		"SIGNALS", "SIGNALS/msgs", "SIGNALS/msgs/*.blk", "SIGNALS/obs", "SIGNALS/meta.inf",
		"PARKED", "PARKED/msgs",
	} {
		t.Run(strings.ReplaceAll(what, "/", "_"), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, filepath.Join(t.TempDir(), "nats"))
			s.pays(t, 10)
			dir := filepath.Join(s.dir, what)
			if name, _, _ := strings.Cut(what, "/"); slices.Contains(bus.OurStreams(), name) {
				dir = s.path(what)
			}
			all, err := filepath.Glob(dir)
			if err != nil || len(all) == 0 {
				t.Fatalf("%s: %v", dir, err)
			}
			for _, one := range all {
				// The server may write into a directory while it is emptied.
				healthtest.Eventually(t, "it is removed", func() bool { return os.RemoveAll(one) == nil })
			}
			s.works(t)
			s.stop()
			s.start(t)
			s.works(t)
		})
	}
}

// TestConsumerDoesNotOutliveItsStream: after a power cut SIGNALS can come back
// empty while what was known of its consumer survives. No signal is skipped
// then, however many were acknowledged before.
func TestConsumerDoesNotOutliveItsStream(t *testing.T) {
	t.Parallel()
	empty := func([]byte) []byte { return nil }
	for name, cut := range map[string]func(t *testing.T, s *site){
		"messages": func(t *testing.T, s *site) {
			damage(t, s.path(bus.SignalsStream, "msgs", "*"), empty)
		},
		"messages and description": func(t *testing.T, s *site) {
			damage(t, s.path(bus.SignalsStream, "msgs", "*"), empty)
			damage(t, s.path(bus.SignalsStream, "meta.*"), empty)
		},
		"directory of messages": func(t *testing.T, s *site) {
			if err := os.RemoveAll(s.path(bus.SignalsStream, "msgs")); err != nil {
				t.Fatal(err)
			}
		},
		"all but the consumers": func(t *testing.T, s *site) {
			if err := os.RemoveAll(s.path(bus.SignalsStream, "msgs")); err != nil {
				t.Fatal(err)
			}
			damage(t, s.path(bus.SignalsStream, "meta.*"), empty)
			files, _ := filepath.Glob(s.path(bus.SignalsStream, "obs", "*", "meta.*"))
			for _, f := range files {
				if err := os.WriteFile(f, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A watchdog that starts JetStream anew would put signals aside.
			s := &site{Book: bustest.NewBook(t), dir: t.TempDir(), stall: healthtest.Patience}
			s.start(t)
			s.pays(t, 40)
			s.stop()
			cut(t, s)
			s.start(t)
			s.judgesEach(t, 10)
		})
	}
}

// judgesEach sends signals that JetStream acknowledges, each once, and waits
// until all are judged.
func (s *site) judgesEach(t *testing.T, n int) {
	t.Helper()
	var all []domain.ID
	for range n {
		p := s.Routed(t)
		all = append(all, p.ID)
		s.publish(t, p)
	}
	healthtest.Eventually(t, "each signal is judged", func() bool { return s.open(t, all) == 0 })
}

// publish sends the signal that pays p, until JetStream has it.
func (s *site) publish(t *testing.T, p domain.Payment) {
	t.Helper()
	healthtest.Eventually(t, "JetStream takes a signal", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.conn.JetStream().PublishMsg(ctx, &nats.Msg{
			Subject: bus.SignalSubject(domain.SandboxRoute, p.Project, p.ID), Data: bustest.Encode(t, bustest.Paid(p)),
		})
		return err == nil
	})
}

// TestDamagedDirectoryIsPutAside: what NATS cannot read is kept, and the log
// is copied anew.
func TestDamagedDirectoryIsPutAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A file where JetStream wants its directory.
	if err := os.WriteFile(filepath.Join(dir, natsserver.JetStreamStoreDir), []byte("what is this"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Start(embedded.Config{Dir: dir, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	aside, err := filepath.Glob(filepath.Join(dir, "*-damaged-*"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("%v, %v", aside, err)
	}
	b := bustest.NewBook(t)
	b.Routed(t)
	relayed(t, s, b)
}

// copied is a log of some payments, and the directory of a server that holds a
// copy of it and has been shut down.
func copied(t *testing.T) (b *bustest.Book, dir string) {
	t.Helper()
	b, dir = bustest.NewBook(t), t.TempDir()
	for range 50 {
		b.Routed(t)
	}
	s := bustest.StartServer(t, embedded.Config{Dir: dir})
	c := bustest.ConnectTo(t, s)
	copyOnce(t, c, b)
	c.Close()
	s.Shutdown()
	return b, dir
}

// copiesAgain starts a server and has the log copied into it.
func copiesAgain(t *testing.T, b *bustest.Book, config embedded.Config) {
	t.Helper()
	s, err := embedded.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	relayed(t, s, b)
}

// relayed waits until the log is copied into a server.
func relayed(t *testing.T, s *embedded.Server, b *bustest.Book) {
	t.Helper()
	c := bustest.ConnectTo(t, s)
	healthtest.Run(t, relayOf(c, b).Run)
	bustest.SameAsLog(t, c.JetStream(), b)
}

// TestDamagedFilesAreSurvived: bytes turned in every file of the directory.
func TestDamagedFilesAreSurvived(t *testing.T) {
	t.Parallel()
	b, dir := copied(t)
	damaged := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, bus.EventsStream) {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || len(content) == 0 {
			return err
		}
		damaged++
		content[len(content)/2] ^= 0xff
		return os.WriteFile(path, content, 0o600)
	})
	if err != nil || damaged < 2 {
		t.Fatalf("%d files, %v", damaged, err)
	}
	copiesAgain(t, b, embedded.Config{Dir: dir, Log: zerolog.Nop()})
}
