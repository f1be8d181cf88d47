package bustest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/health/healthtest"
)

// StartServer starts an embedded server, which ends with the test.
func StartServer(tb testing.TB, c embedded.Config) *embedded.Server {
	tb.Helper()
	if c.Dir == "" {
		c.Dir = tb.TempDir()
	}
	c.Log, c.WatchEvery = healthtest.Log(tb), 50*time.Millisecond
	s, err := embedded.Start(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Shutdown)
	return s
}

// ServeNATS is what a nats-server process does with these arguments. A test's
// own binary runs it, so that none has to be built.
func ServeNATS(args []string) error {
	ignore := func() {}
	o, err := natsserver.ConfigureOptions(flag.NewFlagSet("nats-server", flag.ContinueOnError), args, ignore, ignore, ignore)
	if err != nil {
		return err
	}
	s, err := natsserver.NewServer(o)
	if err != nil {
		return err
	}
	s.Start()
	s.WaitForShutdown()
	return nil
}

// ConnectTo connects to a server as the ledger.
func ConnectTo(tb testing.TB, s bus.Embedded) *bus.Conn {
	tb.Helper()
	return ConnectAs(tb, s, bus.UserLedger)
}

// ConnectAs connects to a server as one of its users.
func ConnectAs(tb testing.TB, s bus.Embedded, user string) *bus.Conn {
	tb.Helper()
	c, err := bus.ConnectEmbedded(s, user, healthtest.Log(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// SameAsLog waits until EVENTS holds the whole log, each message as its record
// is. The server may be started again meanwhile.
func SameAsLog(tb testing.TB, js jetstream.JetStream, b *Book) {
	tb.Helper()
	healthtest.Eventually(tb, "the copy is complete", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), lostAfter)
		defer cancel()
		stream, err := js.Stream(ctx, bus.EventsStream)
		if err != nil || stream.CachedInfo().State.LastSeq != uint64(b.Last(tb)) {
			return false
		}
		want, s := b.Records(tb), stream.CachedInfo().State
		if s.LastSeq != uint64(len(want)) {
			return false
		}
		if s.Msgs != uint64(len(want)) {
			tb.Fatalf("%d messages for %d records", s.Msgs, len(want))
		}
		for _, r := range want {
			m, err := getMsg(stream, r.Position)
			if err != nil {
				return false
			}
			typ, err := eventstore.TypeOf(r.Body)
			if err != nil {
				tb.Fatal(err)
			}
			if subject := bus.EventSubject(r.Stream.Project, typ); m.Subject != subject || string(m.Data) != string(r.Body) {
				tb.Fatalf("position %d: %s %s, want %s %s", r.Position, m.Subject, m.Data, subject, r.Body)
			}
		}
		return true
	})
}

// lostAfter is when a request is made again: a server that is stopped does not
// answer those that are under way.
const lostAfter = time.Second

func getMsg(stream jetstream.Stream, at eventstore.Position) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lostAfter)
	defer cancel()
	return stream.GetMsg(ctx, uint64(at))
}

// Created is when a stream was made, as text to compare.
func Created(t *testing.T, c *bus.Conn, stream string) string {
	t.Helper()
	s, err := c.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatalf("%s: %v", stream, err)
	}
	return fmt.Sprint(s.CachedInfo().Created)
}

// Encode is a signal as it is published.
func Encode(t *testing.T, s domain.Signal) []byte {
	t.Helper()
	b, err := bus.EncodeSignal(s, bus.Said{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// DeleteConsumers deletes the consumers of EVENTS but the subscriber's.
func DeleteConsumers(t *testing.T, c *bus.Conn) {
	t.Helper()
	stream, err := c.JetStream().Stream(t.Context(), bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	names := stream.ConsumerNames(t.Context())
	for name := range names.Name() {
		if name != bus.SubscriberConsumer {
			err = errors.Join(err, ignoreNotFound(stream.DeleteConsumer(t.Context(), name)))
		}
	}
	if err := errors.Join(err, names.Err()); err != nil {
		t.Fatal(err)
	}
}

// ignoreNotFound: a reader of EVENTS deletes its consumer when it is done, perhaps between the list
// of names and this deletion.
func ignoreNotFound(err error) error {
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

// External is the ledger's connection to a server that is not its own.
func External(tb testing.TB) *bus.Conn {
	tb.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: tb.TempDir(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	s.Start()
	tb.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(healthtest.Patience) {
		tb.Fatal("the server does not start")
	}
	c, err := bus.Connect(bus.External{URL: s.ClientURL()}, healthtest.Log(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}
