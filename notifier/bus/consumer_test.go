package bus

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health/healthtest"
)

// consumerSet is the consumers of a test. Their passwords are their names, not
// hashed.
type consumerSet struct {
	mu  sync.Mutex
	all []Consumer
}

func (s *consumerSet) list() []Consumer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Consumer(nil), s.all...)
}

func (s *consumerSet) set(all ...Consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = all
}

func as(t *testing.T, s *Server, user string, refused chan error) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://"+s.Addr().String(), nats.UserInfo(user, user), nats.CustomInboxPrefix("_INBOX_"+user),
		nats.Timeout(healthtest.Patience), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// TestConsumerMayDoNothingElse: a consumer of one project reads with its own
// durable consumer and nothing beside it, and what is sent to the inbox of another
// does not arrive there.
func TestConsumerMayDoNothingElse(t *testing.T) {
	t.Parallel()
	set := &consumerSet{}
	set.set(
		Consumer{Name: "books", Password: "books", Start: "1"},
		Consumer{Name: "shop", Password: "shop", Start: "2", Project: "prj_a"},
	)
	_, _, credentials := outside(t)
	s := started(t, ServerConfig{Listen: "127.0.0.1:0", Credentials: credentials, Consumers: Consumers{
		All: set.list, Progress: func(Consumer, eventstore.Position, uint64) {},
	}})
	ledger := connected(t, s)
	stream, err := OpenStream(t.Context(), ledger.JetStream(), EventsConfig(domain.ID{1}), true)
	if err != nil {
		t.Fatal(err)
	}
	durables := NewDurables(ledger, healthtest.Log(t), nil)
	durables.Keep(t.Context(), stream)
	relay, err := s.ConnectAs(UserRelay)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relay.Close)
	for _, subject := range []string{"prj_a.payment.1", "prj_b.payment.2", "prj_a.project.prj_a"} {
		if _, err := relay.JetStream().Publish(t.Context(), EventsPrefix+subject, nil); err != nil {
			t.Fatal(err)
		}
	}

	refused := make(chan error, 8)
	shop, books := as(t, s, "shop", refused), as(t, s, "books", make(chan error, 8))
	for _, subject := range []string{
		infoSubject("books"), nextSubject("books"), "$JS.ACK.EVENTS.books.1.1.1.1.1", infoSubject(SubscriberConsumer), nextSubject(SubscriberConsumer),
		"$JS.API.CONSUMER.DELETE.EVENTS.shop", "$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.shop", "$JS.API.CONSUMER.CREATE.EVENTS.shop", "$JS.API.INFO",
		"$JS.API.STREAM.INFO.EVENTS", "$JS.API.STREAM.MSG.GET.EVENTS", EventsPrefix + "prj_a.payment.1", SignalsPrefix + "x.prj_a.1", "_INBOX_books.x", CheckpointsSubject,
	} {
		if err := shop.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, refused, "publishing "+subject)
	}
	for _, subject := range []string{
		">", PaymentSubjects, EventsSubjects, EventsPrefix + "prj_b.payment.>", EventsPrefix + "prj_a.project.>", EventsPrefix + "prj_a.>",
		CheckpointsSubject, SignalsSubjects, "_INBOX_books.>", "_INBOX.>", "$JS.>", "$SYS.>",
	} {
		sub, err := shop.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		if err := shop.Flush(); err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, refused, "subscribing to "+subject)
		_ = sub.Unsubscribe()
	}

	inbox, err := books.SubscribeSync("_INBOX_books.>")
	if err != nil {
		t.Fatal(err)
	}
	live, err := books.SubscribeSync(PaymentSubjects)
	if err != nil {
		t.Fatal(err)
	}
	if err := books.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"_INBOX_books.x", EventsPrefix + "prj_b.payment.9"} {
		if err := shop.PublishRequest(infoSubject("shop"), target, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := shop.Flush(); err != nil {
		t.Fatal(err)
	}
	for what, sub := range map[string]*nats.Subscription{"inbox": inbox, "events": live} {
		if m, err := sub.NextMsg(200 * time.Millisecond); err == nil {
			t.Errorf("%s of another consumer: %s %s", what, m.Subject, m.Data)
		}
	}
	js, err := jetstream.New(shop)
	if err != nil {
		t.Fatal(err)
	}
	own, err := js.Consumer(t.Context(), EventsStream, "shop")
	if err != nil {
		t.Fatal(err)
	}
	batch, err := own.Fetch(10, jetstream.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for m := range batch.Messages() {
		if n++; !strings.HasPrefix(m.Subject(), EventsPrefix+"prj_a.payment.") {
			t.Errorf("got %s", m.Subject())
		}
	}
	if n != 1 {
		t.Errorf("%d events, want 1", n)
	}

	// The number of its connections is bounded, and it is disconnected when it is
	// no consumer any more.
	for range maxConsumerConnections - 1 {
		as(t, s, "shop", refused)
	}
	if nc, err := nats.Connect("nats://"+s.Addr().String(), nats.UserInfo("shop", "shop")); !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
		t.Errorf("one connection too many: %v, %v", nc, err)
	}
	set.set(Consumer{Name: "books", Password: "books", Start: "1"})
	if err := s.ReloadConsumers(); err != nil {
		t.Fatal(err)
	}
	durables.Keep(t.Context(), stream)
	healthtest.Eventually(t, "the removed consumer is disconnected", shop.IsClosed)
	if err := books.FlushTimeout(healthtest.Patience); err != nil {
		t.Errorf("the other one: %v", err)
	}
	if err := ledger.NATS().FlushTimeout(healthtest.Patience); err != nil {
		t.Errorf("the ledger: %v", err)
	}
	if _, err := stream.Consumer(t.Context(), "shop"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("its durable consumer: %v", err)
	}
}

func wantRefusal(t *testing.T, refused chan error, what string) {
	t.Helper()
	select {
	case err := <-refused:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(healthtest.Patience):
		t.Errorf("%s: not refused", what)
	}
}
