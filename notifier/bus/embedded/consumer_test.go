package embedded

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/notifier/bus"
	"payledger/notifier/health/healthtest"
)

// consumerSet is the consumers of a test. Their passwords are their names, not
// hashed.
type consumerSet struct {
	mu  sync.Mutex
	all []installation.Consumer
}

func (s *consumerSet) list() []installation.Consumer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]installation.Consumer(nil), s.all...)
}

func (s *consumerSet) set(all ...installation.Consumer) {
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

// asks has the details of payments asked for: shop's, of prj_a alone, and books', of all projects.
func asks(t *testing.T, ledger *bus.Conn, shop, books *nats.Conn) {
	t.Helper()
	known, text := domain.ID{7}, "a\u2028 <b>"
	find := func(_ context.Context, project string, id domain.ID) (domain.Payment, error) {
		switch {
		case id != known:
			return domain.Payment{}, &domain.Refusal{Code: domain.PaymentNotFound}
		case project == "prj_c":
			return domain.Payment{}, errors.New("the file is gone")
		}
		return domain.Payment{Project: project, Status: domain.Paid, Amount: 150000, Currency: "RUB", Description: &text, Payload: domain.JSON(`{"order":1e2}`)}, nil
	}
	healthtest.Run(t, func(ctx context.Context) error { return ledger.AnswerDetails(ctx, find) })
	healthtest.Eventually(t, "details are answered", func() bool {
		_, err := shop.Request(bus.DetailsSubject("prj_a", known.String()), nil, time.Second)
		return err == nil
	})
	whole := `"status":"paid","amount":"1500.00","currency":"RUB","description":"a  <b>","payload":{"order":1e2}}`
	for _, c := range []struct {
		from              *nats.Conn
		project, id, want string
	}{
		{shop, "prj_a", known.String(), whole},
		{books, "prj_b", known.String(), whole},
		{books, "prj_c", known.String(), `"code":"unavailable"}`},
		{shop, "prj_a", domain.ID{8}.String(), `"code":"payment_not_found"}`},
		{shop, "prj_a", "x", `"code":"payment_not_found"}`},
	} {
		m, err := c.from.Request(bus.DetailsSubject(c.project, c.id), []byte("ignored"), healthtest.Patience)
		if err != nil || !strings.HasSuffix(string(m.Data), c.want) {
			t.Errorf("%s %s: %s, %v, want %s", c.project, c.id, m.Data, err, c.want)
		}
	}
	// An answer goes nowhere but to an inbox.
	stray, err := ledger.NATS().SubscribeSync("stray")
	if err == nil {
		err = ledger.NATS().PublishRequest(bus.DetailsSubject("prj_a", known.String()), "stray", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stray.NextMsg(200 * time.Millisecond); err == nil {
		t.Errorf("answered outside of an inbox: %s", m.Data)
	}
}

// TestConsumerMayDoNothingElse: a consumer of one project reads with its own
// durable consumer and nothing beside it, and what is sent to the inbox of another
// does not arrive there.
func TestConsumerMayDoNothingElse(t *testing.T) {
	t.Parallel()
	set := &consumerSet{}
	set.set(
		installation.Consumer{Name: "books", Password: "books", Start: domain.ID{1}},
		installation.Consumer{Name: "shop", Password: "shop", Start: domain.ID{2}, ProjectID: "prj_a"},
	)
	_, _, credentials := outside(t)
	consumers, err := bus.OpenConsumers(bus.ConsumersConfig{Known: set.list})
	if err != nil {
		t.Fatal(err)
	}
	s := started(t, Config{Listen: "127.0.0.1:0", Credentials: credentials, Consumers: consumers})
	ledger := connected(t, s)
	stream, err := bus.OpenStream(t.Context(), ledger, bus.EventsConfig(domain.ID{1}))
	if err != nil {
		t.Fatal(err)
	}
	durables := bus.NewDurables(ledger, healthtest.Log(t), nil)
	durables.Keep(t.Context(), stream)
	relay, err := bus.ConnectEmbedded(s, bus.UserRelay, healthtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relay.Close)
	for _, subject := range []string{"prj_a.payment.paid", "prj_a.refund.created", "prj_a.return.failed", "prj_b.payment.paid", "prj_a.project.changed"} {
		if _, err := relay.JetStream().Publish(healthtest.Within(t), bus.EventsPrefix+subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}

	refused := make(chan error, 8)
	shop, books := as(t, s, "shop", refused), as(t, s, "books", make(chan error, 8))
	for _, subject := range []string{
		bus.InfoSubject("books"), bus.NextSubject("books"), "$JS.ACK.EVENTS.books.1.1.1.1.1", bus.InfoSubject(bus.SubscriberConsumer), bus.NextSubject(bus.SubscriberConsumer),
		"$JS.API.CONSUMER.DELETE.EVENTS.shop", "$JS.API.CONSUMER.DURABLE.CREATE.EVENTS.shop", "$JS.API.CONSUMER.CREATE.EVENTS.shop", "$JS.API.INFO",
		"$JS.API.STREAM.INFO.EVENTS", "$JS.API.STREAM.MSG.GET.EVENTS", bus.EventsPrefix + "prj_a.payment.paid", bus.SignalsPrefix + "x.prj_a.1", "_INBOX_books.x", bus.CheckpointsSubject,
		bus.DetailsSubject("prj_b", "1"), bus.DetailsSubject("prj_a", "1.2"),
	} {
		if err := shop.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, refused, "publishing "+subject)
	}
	for _, subject := range []string{
		">", bus.PaymentSubjects("*")[0], bus.EventsSubjects, bus.EventsPrefix + "prj_b.payment.>", bus.EventsPrefix + "prj_a.project.>", bus.EventsPrefix + "prj_a.>",
		bus.CheckpointsSubject, bus.SignalsSubjects, "_INBOX_books.>", "_INBOX.>", "$JS.>", "$SYS.>",
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
	live, err := books.SubscribeSync(bus.PaymentSubjects("*")[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := books.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"_INBOX_books.x", bus.EventsPrefix + "prj_b.payment.9"} {
		if err := shop.PublishRequest(bus.InfoSubject("shop"), target, nil); err != nil {
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
	asks(t, ledger, shop, books)
	heard, err := books.SubscribeSync(bus.CheckpointsSubject)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(books.Flush(), ledger.NATS().Publish(bus.CheckpointsSubject, []byte("signed"))); err != nil {
		t.Fatal(err)
	}
	if m, err := heard.NextMsg(healthtest.Patience); err != nil || string(m.Data) != "signed" {
		t.Errorf("a consumer of all projects hears of checkpoints %v, %v", m, err)
	}
	js, err := jetstream.New(shop)
	if err != nil {
		t.Fatal(err)
	}
	own, err := js.Consumer(t.Context(), bus.EventsStream, "shop")
	if err != nil {
		t.Fatal(err)
	}
	batch, err := own.Fetch(10, jetstream.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for m := range batch.Messages() {
		if n++; !strings.HasPrefix(m.Subject(), bus.EventsPrefix+"prj_a.") {
			t.Errorf("got %s", m.Subject())
		}
	}
	if n != 3 {
		t.Errorf("%d events, want 3", n)
	}

	// The number of its connections is bounded, and it is disconnected when it is
	// no consumer any more.
	for range maxConsumerConnections - 1 {
		as(t, s, "shop", refused)
	}
	if nc, err := nats.Connect("nats://"+s.Addr().String(), nats.UserInfo("shop", "shop"), nats.Timeout(healthtest.Patience)); !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
		t.Errorf("one connection too many: %v, %v", nc, err)
	}
	set.set(installation.Consumer{Name: "books", Password: "books", Start: domain.ID{1}})
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
