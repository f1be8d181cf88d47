package notifier

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
)

func TestRelayCopiesTheLogInOrder(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	for range 300 {
		b.create(t, time.Hour)
	}
	c := connectTo(t, startServer(t, ServerConfig{}))
	r := newRelay(c, b)
	run(t, r.Run)
	for range 300 {
		b.routed(t)
	}
	sameAsLog(t, c.JetStream(), b)
	eventually(t, "the relay knows", func() bool { return r.Position() == b.last(t) && r.Err() == nil })
	if lag := lag(b.Store, r.Position()); lag != 0 {
		t.Errorf("lag %v", lag)
	}
	if lag := lag(b.Store, r.Position()-7); lag != 7 {
		t.Errorf("lag %v", lag)
	}
}

// TestEventsAreCloudEvents lets the CloudEvents SDK judge the headers.
func TestEventsAreCloudEvents(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.register(t)
	b.routed(t)
	for _, r := range b.records(t) {
		msg, err := eventMessage(b.logID, r)
		if err != nil {
			t.Fatal(err)
		}
		e := ce.NewEvent()
		for name, values := range msg.Header {
			if len(values) != 1 {
				t.Errorf("%s: %q", name, values)
			}
			switch value := values[0]; name {
			case headerContentType:
				e.SetDataContentType(value)
			case headerSpecVersion:
				e.SetSpecVersion(value)
			case headerID:
				e.SetID(value)
			case headerSource:
				e.SetSource(value)
			case headerType:
				e.SetType(value)
			case headerSubject:
				e.SetSubject(value)
			case headerTime:
				at, err := time.Parse(time.RFC3339Nano, value)
				if err != nil {
					t.Error(err)
				}
				e.SetTime(at)
			case headerPosition, headerStreamSequence:
				e.SetExtension(name[len("ce-"):], value)
			case jetstream.ExpectedLastSeqHeader:
			default:
				t.Errorf("header %s", name)
			}
		}
		if err := e.SetData(e.DataContentType(), msg.Data); err != nil {
			t.Error(err)
		}
		if err := e.Validate(); err != nil {
			t.Errorf("position %d: %v", r.Position, err)
		}
		event, err := b.Codec.Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type() != event.Type() || e.ID() != r.Commit.String() || !e.Time().Equal(r.At) ||
			e.Extensions()["position"] != strconv.FormatUint(uint64(r.Position), 10) ||
			e.Extensions()["streamsequence"] != strconv.FormatUint(r.Sequence, 10) || string(e.Data()) != string(r.Body) {
			t.Errorf("position %d: %v", r.Position, e)
		}
	}
}

func TestRelayGoesOnAfterRestarts(t *testing.T) {
	t.Parallel()
	b, dir := newBook(t), t.TempDir()
	var first string
	for i := range 5 {
		s := startServer(t, ServerConfig{Dir: dir})
		c := connectTo(t, s)
		stop := run(t, newRelay(c, b).Run)
		for range 40 {
			b.routed(t)
		}
		if i%2 == 0 {
			sameAsLog(t, c.JetStream(), b) // otherwise it is stopped in the middle
			if now := created(t, c, EventsStream); first == "" {
				first = now
			} else if now != first {
				t.Error("the copy was made anew")
			}
		}
		stop()
		c.Close()
		s.Shutdown()
	}
}

func TestRelayRebuildsADeletedDirectory(t *testing.T) {
	t.Parallel()
	b, dir := newBook(t), t.TempDir()
	for range 2 {
		s := startServer(t, ServerConfig{Dir: dir})
		c := connectTo(t, s)
		stop := run(t, newRelay(c, b).Run)
		for range 50 {
			b.routed(t)
		}
		sameAsLog(t, c.JetStream(), b)
		stop()
		c.Close()
		s.Shutdown()
		if err := os.RemoveAll(filepath.Join(dir, natsserver.JetStreamStoreDir)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRelayRebuildsADirectoryDeletedUnderTheServer(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]string{
		"all": "", "jetstream": natsserver.JetStreamStoreDir,
		"account": natsserver.JetStreamStoreDir + "/" + accountLedger,
		"streams": natsserver.JetStreamStoreDir + "/" + accountLedger + "/streams",
		"events":  natsserver.JetStreamStoreDir + "/" + accountLedger + "/streams/" + EventsStream,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, dir := newBook(t), t.TempDir()
			s := startServer(t, ServerConfig{Dir: dir})
			run(t, s.Run)
			c := connectTo(t, s)
			run(t, newRelay(c, b).Run)
			run(t, newWorkers(t, c, b).Run)
			for range 50 {
				b.create(t, time.Hour)
			}
			sameAsLog(t, c.JetStream(), b)
			was := created(t, c, EventsStream)
			eventually(t, "the server knows its directories", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				_, known := s.storage.streams[EventsStream]
				return known
			})
			if err := os.RemoveAll(filepath.Join(dir, what)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the copy is made anew", func() bool {
				b.create(t, time.Hour)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				stream, err := c.JetStream().Stream(ctx, EventsStream)
				return err == nil && stream.CachedInfo().Created.String() != was
			})
			sameAsLog(t, c.JetStream(), b)
			allRouted(t, b)
			if _, err := os.Stat(filepath.Join(dir, natsserver.JetStreamStoreDir, accountLedger, "streams", EventsStream)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRelayGoesOnFromARolledBackDirectory(t *testing.T) {
	t.Parallel()
	b, dir, backup := newBook(t), t.TempDir(), filepath.Join(t.TempDir(), "nats")
	for i := range 3 {
		s := startServer(t, ServerConfig{Dir: dir})
		c := connectTo(t, s)
		stop := run(t, newRelay(c, b).Run)
		for range 50 {
			b.routed(t)
		}
		sameAsLog(t, c.JetStream(), b)
		stop()
		c.Close()
		s.Shutdown()
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
	for name, spoil := range map[string]func(*testing.T, *Conn, *book){
		"another log": func(t *testing.T, c *Conn, _ *book) {
			other := newBook(t)
			other.routed(t)
			copyOnce(t, c, other)
		},
		"longer than the log": func(t *testing.T, c *Conn, b *book) {
			longer := newBook(t)
			longer.logID = b.logID
			for range 20 {
				longer.routed(t)
			}
			copyOnce(t, c, longer)
		},
		"other last event": func(t *testing.T, c *Conn, b *book) {
			other := newBook(t)
			other.logID = b.logID
			other.routed(t)
			copyOnce(t, c, other)
		},
		"gap": func(t *testing.T, c *Conn, b *book) {
			cfg := eventsConfig(b.logID)
			cfg.DenyDelete = false
			stream, err := c.JetStream().CreateStream(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range b.records(t)[:4] {
				m, err := eventMessage(b.logID, r)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := connectAs(t, c.server, userRelay).JetStream().PublishMsg(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			if err := stream.DeleteMsg(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
		},
		"limits": func(t *testing.T, c *Conn, b *book) {
			cfg := eventsConfig(b.logID)
			cfg.MaxMsgs = 5
			if _, err := c.JetStream().CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		},
		"not ours": func(t *testing.T, c *Conn, _ *book) {
			_, err := c.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: EventsStream, Subjects: []string{eventsSubjects}})
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBook(t)
			for range 5 {
				b.routed(t)
			}
			c := connectTo(t, startServer(t, ServerConfig{}))
			spoil(t, c, b)
			was := created(t, c, EventsStream)
			run(t, newRelay(c, b).Run)
			sameAsLog(t, c.JetStream(), b)
			if created(t, c, EventsStream) == was {
				t.Error("the copy was not made anew")
			}
		})
	}
}

// copyOnce copies a log and stops.
func copyOnce(t *testing.T, c *Conn, b *book) {
	t.Helper()
	stop := run(t, newRelay(c, b).Run)
	sameAsLog(t, c.JetStream(), b)
	stop()
}

// TestRelayNoticesWhatHappensToAnIdleCopy: nothing is appended that could
// fail.
func TestRelayNoticesWhatHappensToAnIdleCopy(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.routed(t)
	c := connectTo(t, startServer(t, ServerConfig{}))
	run(t, newRelay(c, b).Run)
	sameAsLog(t, c.JetStream(), b)
	if err := c.JetStream().DeleteStream(t.Context(), EventsStream); err != nil {
		t.Fatal(err)
	}
	sameAsLog(t, c.JetStream(), b)
}

// TestForeignWriterCannotSpoilTheCopy: a message nobody should have written
// makes the copy be made anew.
func TestForeignWriterCannotSpoilTheCopy(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.routed(t)
	c := connectTo(t, startServer(t, ServerConfig{}))
	r := newRelay(c, b)
	run(t, r.Run)
	sameAsLog(t, c.JetStream(), b)
	was := created(t, c, EventsStream)
	if _, err := connectAs(t, c.server, userRelay).JetStream().Publish(t.Context(), "payledger.v1.events.x.payment.y", []byte("junk")); err != nil {
		t.Fatal(err)
	}
	b.create(t, time.Hour)
	eventually(t, "the copy is made anew", func() bool {
		stream, err := c.JetStream().Stream(t.Context(), EventsStream)
		return err == nil && stream.CachedInfo().Created.String() != was
	})
	sameAsLog(t, c.JetStream(), b)
}

// TestOnlyTheRelayWritesEvents: not even what else runs in this process. One
// answer of JetStream could not stand for many events otherwise.
func TestOnlyTheRelayWritesEvents(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	c := connectTo(t, startServer(t, ServerConfig{}))
	run(t, newRelay(c, b).Run)
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
		b.routed(t)
	}
	sameAsLog(t, c.JetStream(), b)
	stop()
	foreign.Wait()
	if err := c.NATS().LastError(); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("%v", err)
	}
	sameAsLog(t, c.JetStream(), b)
}

// silent is an outlet on which no answer ever comes.
type silent struct{ outlet }

func (silent) waits() bool { return true }

func TestRelayDoesNotWaitForAnAnswerForEver(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.routed(t)
	c := connectTo(t, startServer(t, ServerConfig{}))
	r := newRelay(c, b)
	r.times.Answer = 0
	stream, _, err := r.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.watch(within(t), stream, silent{}); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("%v", err)
	}
}

func TestRelayStopsWithTheStore(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.routed(t)
	c := connectTo(t, startServer(t, ServerConfig{}))
	done := make(chan error, 1)
	go func() { done <- newRelay(c, b).Run(context.Background()) }()
	sameAsLog(t, c.JetStream(), b)
	if err := b.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, eventstore.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func TestEventTypeOfDamagedBodies(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{", "[]", "{}", `{"type":7}`, `{"type":"a b"}`, `{"type":"a\r\nce-id: b"}`} {
		if _, err := eventMessage(domain.ID{}, eventstore.Stored{Position: 7, Body: []byte(body)}); !errors.As(err, new(*eventstore.CorruptError)) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// The type is found at its usual place only where the general reading finds
// it.
func TestUsualTypeIsTheType(t *testing.T) {
	t.Parallel()
	const good = `{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"payment.paid","version":1}`
	if typ, ok := usualType([]byte(good)); !ok || typ != domain.TypePaymentPaid {
		t.Errorf("%q, %t", typ, ok)
	}
	for i := range good {
		for _, b := range []byte(`"\\ {:,x`) {
			body := []byte(good)
			body[i] = b
			typ, ok := usualType(body)
			if !ok {
				continue
			}
			if want, err := eventType(append([]byte(" "), body...)); err != nil || typ != want {
				t.Errorf("%s: %q, want %q, %v", body, typ, want, err)
			}
		}
	}
}
