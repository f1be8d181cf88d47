package notifier

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/acquirer"
)

// open is a listening server with the whole room at work and a client for
// each credential.
type open struct {
	*book
	ledger                *Conn
	server                *Server
	subscriber, connector *client
}

// client is a plain NATS client that notes what the server refuses.
type client struct {
	*nats.Conn
	refused chan error
}

func newOpen(t *testing.T) *open {
	t.Helper()
	credentials, err := NewCredentials(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o := &open{book: newBook(t)}
	o.server = startServer(t, ServerConfig{Listen: "127.0.0.1:0", Credentials: credentials})
	o.ledger = connectTo(t, o.server)
	o.register(t)
	pipeline(t, o.ledger, o.book)
	sameAsLog(t, o.ledger.JetStream(), o.book)
	eventually(t, "the enforcer listens", func() bool {
		stream, err := o.ledger.JetStream().Stream(t.Context(), SignalsStream)
		return err == nil && stream.CachedInfo().State.Consumers == 1
	})
	o.subscriber = plainClient(t, o.server, credentials.Subscriber)
	o.connector = plainClient(t, o.server, credentials.Connector)
	return o
}

func plainClient(t *testing.T, s *Server, c Credential) *client {
	t.Helper()
	p := &client{refused: make(chan error, 64)}
	var err error
	p.Conn, err = nats.Connect("nats://"+s.Addr().String(), nats.UserInfo(c.User, c.Password),
		nats.CustomInboxPrefix("_INBOX_"+c.User), nats.Timeout(patience),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { p.refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// violations lets the server answer everything sent so far and tells what it
// has refused.
func (c *client) violations(t *testing.T) []error {
	t.Helper()
	if err := c.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	if err := c.Barrier(func() {}); err != nil {
		t.Fatal(err)
	}
	// Errors are handed out in order by one goroutine: ours comes after them.
	var all []error
	for {
		select {
		case err := <-c.refused:
			all = append(all, err)
		case <-time.After(100 * time.Millisecond):
			return all
		}
	}
}

func TestServerWithoutAddressHasNoListener(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerConfig{})
	if s.Addr() != nil {
		t.Fatalf("listens on %v", s.Addr())
	}
}

func TestNobodyConnectsWithoutCredentials(t *testing.T) {
	t.Parallel()
	credentials, err := NewCredentials(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, ServerConfig{Listen: "127.0.0.1:0", Credentials: credentials})
	for name, o := range map[string]nats.Option{
		"anonymous":           nats.Name("nobody"),
		"wrong password":      nats.UserInfo("subscriber", "wrong"),
		"empty password":      nats.UserInfo("connector", ""),
		"another's":           nats.UserInfo("connector", credentials.Subscriber.Password),
		"the ledger's name":   nats.UserInfo(userLedger, ""),
		"the system's name":   nats.UserInfo("sys", "sys"),
		"password as a token": nats.Token(credentials.Subscriber.Password),
	} {
		nc, err := nats.Connect("nats://"+s.Addr().String(), o)
		if err == nil {
			nc.Close()
			t.Errorf("%s: connected", name)
		} else if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSubscriberReadsPaymentEvents(t *testing.T) {
	t.Parallel()
	o := newOpen(t)
	live, err := o.subscriber.SubscribeSync(paymentSubjects)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.subscriber.Flush(); err != nil {
		t.Fatal(err)
	}
	p := o.routed(t)

	js, err := jetstream.New(o.subscriber.Conn)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(t.Context(), EventsStream, SubscriberConsumer)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for len(got) < 2 {
		batch, err := consumer.Fetch(10, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			got = append(got, string(m.Data()))
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatalf("ack: %v", err)
			}
		}
	}
	var want []string
	for _, r := range o.records(t) {
		if r.Stream.Kind == eventstore.KindPayment {
			want = append(want, string(r.Body))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("consumed\n%s\nwant\n%s", got, want)
	}
	for range want {
		m, err := live.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(m.Subject, ".payment."+p.ID.String()) {
			t.Errorf("live: %s", m.Subject)
		}
	}
	if v := o.subscriber.violations(t); len(v) > 0 {
		t.Errorf("refused: %v", v)
	}
	info, err := consumer.Info(t.Context())
	if err != nil || info.NumAckPending != 0 {
		t.Errorf("after the acknowledgements: %+v, %v", info, err)
	}
	// A pull that waits is served when something comes.
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	o.create(t, time.Hour)
	if m, err := messages.Next(jetstream.NextContext(within(t))); err != nil || m.Ack() != nil {
		t.Errorf("waiting pull: %v", err)
	}
}

func TestConnectorPaysAndIsAnswered(t *testing.T) {
	t.Parallel()
	o := newOpen(t)
	p := o.routed(t)
	for _, want := range []string{domain.SignalApplied, domain.SignalUnchanged} {
		inbox := o.connector.NewInbox()
		sub, err := o.connector.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		data, err := acquirer.Encode(domain.Signal{
			Outcome: domain.OutcomePaid, Reference: "ref", Amount: p.Amount, Currency: p.Currency, StartedAt: p.CreatedAt,
		})
		if err != nil {
			t.Fatal(err)
		}
		// With JetStream's own acknowledgement as well.
		ack, err := o.connector.RequestMsg(&nats.Msg{
			Subject: acquirer.Subject(p.Route, p.Project, p.ID), Data: data,
			Header: nats.Header{acquirer.ReplyHeader: {inbox}},
		}, patience)
		if err != nil || !strings.Contains(string(ack.Data), SignalsStream) {
			t.Fatalf("acknowledgement: %v, %v", ack, err)
		}
		m, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		var reply domain.SignalReply
		if err := json.Unmarshal(m.Data, &reply); err != nil || reply.Result != want {
			t.Fatalf("%s, %v: want %s", m.Data, err, want)
		}
	}
	if got := o.payment(t, p.ID).Status; got != domain.Paid {
		t.Errorf("payment is %s", got)
	}
	if v := o.connector.violations(t); len(v) > 0 {
		t.Errorf("refused: %v", v)
	}
}

// TestOutsidersCannot lists what each credential must not be able to do.
func TestOutsidersCannot(t *testing.T) {
	t.Parallel()
	o := newOpen(t)
	p := o.routed(t)
	sameAsLog(t, o.ledger.JetStream(), o.book)
	id := p.ID.String()
	event, signal := EventSubject(eventstore.PaymentStream(testProject, p.ID)), acquirer.Subject(p.Route, testProject, p.ID)
	api := func(s string) string { return "$JS.API." + s }

	publish := []string{
		event, parkedSubject, CheckpointsSubject, "payledger.v1.other", "foo", "_INBOX.x", "_INBOX_ledger.x", "_INBOX_subscriber.x",
		api("INFO"), api("STREAM.NAMES"), api("STREAM.LIST"), api("STREAM.INFO.EVENTS"), api("STREAM.CREATE.X"),
		api("STREAM.UPDATE.EVENTS"), api("STREAM.DELETE.EVENTS"), api("STREAM.PURGE.EVENTS"), api("STREAM.MSG.GET.EVENTS"),
		api("STREAM.MSG.DELETE.EVENTS"), api("STREAM.SNAPSHOT.EVENTS"), api("STREAM.RESTORE.X"), api("STREAM.PURGE.SIGNALS"), api("STREAM.DELETE.CHECKPOINTS"),
		api("DIRECT.GET.EVENTS"), api("DIRECT.GET.EVENTS." + event),
		api("CONSUMER.CREATE.EVENTS"), api("CONSUMER.CREATE.EVENTS.mine"), api("CONSUMER.CREATE.EVENTS.mine." + paymentSubjects[:len(paymentSubjects)-2] + "x"),
		api("CONSUMER.CREATE.EVENTS.subscriber"), api("CONSUMER.DURABLE.CREATE.EVENTS.mine"), api("CONSUMER.DURABLE.CREATE.EVENTS.subscriber"),
		api("CONSUMER.DELETE.EVENTS.subscriber"), api("CONSUMER.PAUSE.EVENTS.subscriber"), api("CONSUMER.RESET.EVENTS.subscriber"),
		api("CONSUMER.UNPIN.EVENTS.subscriber"), api("CONSUMER.NAMES.EVENTS"), api("CONSUMER.LIST.EVENTS"),
		api("CONSUMER.INFO.EVENTS.other"), api("CONSUMER.MSG.NEXT.EVENTS.other"),
		api("CONSUMER.INFO.SIGNALS.enforcer"), api("CONSUMER.MSG.NEXT.SIGNALS.enforcer"),
		"$JS.ACK.SIGNALS.enforcer.1.1.1.1.1", "$JS.ACK.EVENTS.other.1.1.1.1.1", "$JS.FC.x",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.LEDGER.INFO", "$SYS.REQ.USER.INFO",
	}
	subscribe := []string{
		">", "*", "payledger.>", eventsSubjects, "payledger.v1.events.*.project.>", EventSubject(eventstore.ProjectStream(testProject)),
		"payledger.v1.events.*.*.>", "payledger.v1.events.>", signalsSubjects, parkedSubject,
		"_INBOX.>", "_INBOX_ledger.>", "_INBOX*.>", "$JS.>", "$JS.API.>", "$JS.ACK.>", "$JS.EVENT.>", "$SYS.>", "_R_.>", "$KV.>",
	}
	for name, c := range map[string]struct {
		*client
		publish, subscribe []string
	}{
		"subscriber": {
			o.subscriber, append(publish, signal, inboxConnector+".x"), append(subscribe, inboxConnector+".>"),
		},
		"connector": {
			o.connector, append(publish, inboxConnector+".x", subscriberInfo, subscriberNext, "$JS.ACK.EVENTS.subscriber.1.1.1.1.1"),
			append(subscribe, paymentSubjects, CheckpointsSubject, event, "payledger.v1.events."+testProject+".payment."+id, inboxSubscriber+".>"),
		},
	} {
		for _, subject := range c.publish {
			if err := c.Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
			expectRefusal(t, c.client, name+" publishes "+subject, "Permissions Violation for Publish to \""+subject+"\"")
		}
		for _, subject := range c.subscribe {
			sub, err := c.SubscribeSync(subject)
			if err != nil {
				t.Fatal(err)
			}
			expectRefusal(t, c.client, name+" subscribes "+subject, "Permissions Violation for Subscription to \""+subject+"\"")
			_ = sub.Unsubscribe()
		}
	}
	sameAsLog(t, o.ledger.JetStream(), o.book)
}

func expectRefusal(t *testing.T, c *client, what, want string) {
	t.Helper()
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-c.refused:
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	case <-time.After(patience):
		t.Errorf("%s: not refused", what)
	}
}

// TestRepliesCannotBeTurnedAgainstTheLedger: the subject an answer is asked
// on is not covered by permissions, and JetStream answers with full rights.
func TestRepliesCannotBeTurnedAgainstTheLedger(t *testing.T) {
	t.Parallel()
	o := newOpen(t)
	p := o.routed(t)
	sameAsLog(t, o.ledger.JetStream(), o.book)
	event := EventSubject(eventstore.PaymentStream(testProject, p.ID))
	before := map[string]string{}
	for _, name := range []string{EventsStream, SignalsStream, ParkedStream} {
		before[name] = created(t, o.ledger, name)
	}
	targets := []string{
		event, "payledger.v1.events.x", acquirer.Subject(p.Route, testProject, p.ID), parkedSubject,
		"$JS.API.STREAM.DELETE.EVENTS", "$JS.API.STREAM.DELETE.SIGNALS", "$JS.API.STREAM.PURGE.SIGNALS", "$JS.API.STREAM.DELETE.PARKED",
		"$JS.API.CONSUMER.DELETE.EVENTS.subscriber", "$JS.API.CONSUMER.DELETE.SIGNALS.enforcer",
		"$JS.ACK.SIGNALS.enforcer.1.1.1.1.1", "$SYS.REQ.SERVER.PING",
	}
	for _, target := range targets {
		// An empty pull that does not wait is answered by an empty message,
		// and one that may wait by an event.
		for _, body := range []string{`{"batch":1,"no_wait":true}`, `{"batch":1,"expires":1000000}`, `{"batch":10,"expires":1000000000}`} {
			if err := o.subscriber.PublishRequest(subscriberNext, target, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.subscriber.PublishRequest(subscriberInfo, target, nil); err != nil {
			t.Fatal(err)
		}
		// Both answers to a signal: JetStream's and the enforcer's.
		err := o.connector.PublishMsg(&nats.Msg{
			Subject: acquirer.Subject(p.Route, testProject, p.ID), Reply: target, Data: []byte(`{}`),
			Header: nats.Header{acquirer.ReplyHeader: {target}, "Nats-Trace-Dest": {target}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	o.subscriber.violations(t)
	o.connector.violations(t)
	o.create(t, time.Hour)
	sameAsLog(t, o.ledger.JetStream(), o.book)
	for name, was := range before {
		if now := created(t, o.ledger, name); now != was {
			t.Errorf("%s was made anew", name)
		}
	}
	if got := o.payment(t, p.ID).Status; got != domain.AwaitingPayment {
		t.Errorf("payment is %s", got)
	}
}

func TestReplySubject(t *testing.T) {
	t.Parallel()
	for subject, ok := range map[string]bool{
		"_INBOX.abc": true, "_INBOX_connector.abc.d": true, "_INBOX.a-b_C9": true,
		"": false, "_INBOX": false, "_INBOX.": false, "_INBOX..a": false, "_INBOX.a.": false, "_INBOX.*": false, "_INBOX.a.>": false,
		"_INBOX.a b": false, "_INBOX.a\r\nPUB x": false, "_INBOX.é": false, "_INBOXX.a": false, "_INBOX_ledger.a": false,
		"_INBOX_subscriber.a": false, "_INBOX_connectorx.a": false, "payledger.v1.events.p.payment.x": false,
		"$JS.API.STREAM.DELETE.EVENTS": false, " _INBOX.a": false, "_INBOX." + strings.Repeat("a", maxReplySubject): false,
	} {
		got := replySubject(map[string][]string{acquirer.ReplyHeader: {subject}})
		if (got == subject && subject != "") != ok || (!ok && got != "") {
			t.Errorf("%q: %q", subject, got)
		}
	}
	if got := replySubject(map[string][]string{acquirer.ReplyHeader: {"_INBOX.a", "_INBOX.b"}}); got != "" {
		t.Errorf("two subjects: %q", got)
	}
}

func TestListenAddressErrors(t *testing.T) {
	t.Parallel()
	credentials, err := NewCredentials(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, c := range []ServerConfig{
		{Listen: taken.Addr().String(), Credentials: credentials},
		{Listen: "127.0.0.1", Credentials: credentials},
		{Listen: "127.0.0.1:http", Credentials: credentials},
		{Listen: "127.0.0.1:0"},
		{Listen: "127.0.0.1:0", Credentials: Credentials{credentials.Connector, credentials.Subscriber}},
	} {
		c.Dir, c.Log = t.TempDir(), testLog(t)
		s, err := StartServer(c)
		if err == nil {
			s.Shutdown()
			t.Errorf("%q: started", c.Listen)
		}
	}
}
