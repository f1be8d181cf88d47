package notifier

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

// open is a listening server with the whole room at work and a client for
// each credential.
type open struct {
	*bustest.Book
	ledger                *bus.Conn
	server                *embedded.Server
	subscriber, connector *client
}

// client is a plain NATS client that notes what the server refuses.
type client struct {
	*nats.Conn
	refused chan error
}

func newOpen(t *testing.T) *open {
	t.Helper()
	credentials := embedded.NewCredentials()
	o := &open{Book: bustest.NewBook(t)}
	o.server = bustest.StartServer(t, embedded.Config{Listen: "127.0.0.1:0", Credentials: credentials})
	o.ledger = bustest.ConnectTo(t, o.server)
	o.Register(t)
	pipeline(t, o.ledger, o.Book)
	bustest.SameAsLog(t, o.ledger.JetStream(), o.Book)
	healthtest.Eventually(t, "the enforcer listens", func() bool {
		stream, err := o.ledger.JetStream().Stream(t.Context(), bus.SignalsStream)
		return err == nil && stream.CachedInfo().State.Consumers == 1
	})
	o.subscriber = plainClient(t, o.server, credentials.Subscriber)
	o.connector = plainClient(t, o.server, credentials.Connector)
	return o
}

func plainClient(t *testing.T, s *embedded.Server, c embedded.Credential) *client {
	t.Helper()
	p := &client{refused: make(chan error, 64)}
	var err error
	healthtest.Eventually(t, "a client signs in in time", func() bool {
		p.Conn, err = nats.Connect("nats://"+s.Addr().String(), nats.UserInfo(c.User, c.Password),
			nats.CustomInboxPrefix("_INBOX_"+c.User), nats.Timeout(healthtest.Patience),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { p.refused <- err }))
		return !errors.Is(err, io.EOF) // on a busy machine the server has closed it as one that is silent
	})
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
	if err := c.FlushTimeout(healthtest.Patience); err != nil {
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

func TestSubscriberReadsPaymentEvents(t *testing.T) {
	t.Parallel()
	o := newOpen(t)
	live, err := o.subscriber.SubscribeSync(bus.PaymentSubjects("*")[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := o.subscriber.Flush(); err != nil {
		t.Fatal(err)
	}
	p := o.Routed(t)

	js, err := jetstream.New(o.subscriber.Conn)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(t.Context(), bus.EventsStream, bus.SubscriberConsumer)
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
			if err := m.DoubleAck(healthtest.Within(t)); err != nil {
				t.Fatalf("ack: %v", err)
			}
		}
	}
	var want []string
	for _, r := range o.Records(t) {
		if r.Stream.Kind == eventstore.KindPayment {
			want = append(want, string(r.Body))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("consumed\n%s\nwant\n%s", got, want)
	}
	for range want {
		m, err := live.NextMsg(healthtest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject != bus.EventSubject(bustest.Project, m.Header.Get(bus.HeaderType)) || m.Header.Get(bus.HeaderSubject) != "payment/"+p.ID.String() {
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
	o.Create(t, time.Hour)
	if m, err := messages.Next(jetstream.NextContext(healthtest.Within(t))); err != nil || m.Ack() != nil {
		t.Errorf("waiting pull: %v", err)
	}
}

func TestConnectorPaysAndIsAnswered(t *testing.T) {
	t.Parallel()
	o := newOpen(t)
	p := o.Routed(t)
	for _, want := range []string{domain.SignalApplied, domain.SignalUnchanged} {
		inbox := o.connector.NewInbox()
		sub, err := o.connector.SubscribeSync(inbox)
		if err != nil {
			t.Fatal(err)
		}
		data, err := bus.EncodeSignal(domain.Signal{
			Outcome: domain.OutcomePaid, Reference: "ref", Amount: p.Amount, Currency: p.Currency, StartedAt: p.CreatedAt,
		}, bus.Said{})
		if err != nil {
			t.Fatal(err)
		}
		// With JetStream's own acknowledgement as well.
		ack, err := o.connector.RequestMsg(&nats.Msg{
			Subject: bus.SignalSubject(p.Route, p.Project, p.ID), Data: data,
			Header: nats.Header{bus.ReplyHeader: {inbox}},
		}, healthtest.Patience)
		if err != nil || !strings.Contains(string(ack.Data), bus.SignalsStream) {
			t.Fatalf("acknowledgement: %v, %v", ack, err)
		}
		m, err := sub.NextMsg(healthtest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		var reply domain.SignalReply
		if err := json.Unmarshal(m.Data, &reply); err != nil || reply.Result != want {
			t.Fatalf("%s, %v: want %s", m.Data, err, want)
		}
	}
	if got := o.Payment(t, p.ID).Status; got != domain.Paid {
		t.Errorf("payment is %s", got)
	}
	if v := o.connector.violations(t); len(v) > 0 {
		t.Errorf("refused: %v", v)
	}
}

// TestConnectorAnswersCalls: of the subjects of calls, each once, and nobody else
// is answered.
func TestConnectorAnswersCalls(t *testing.T) {
	t.Parallel()
	o := newOpen(t)
	calls, err := o.connector.SubscribeSync(bus.CallsSubjects)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.connector.Flush(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		m, err := o.ledger.NATS().RequestWithContext(healthtest.Within(t), bus.CallSubject("visa", "begin"), []byte("asked"))
		if err != nil {
			t.Error(err)
			m = &nats.Msg{}
		}
		answered <- string(m.Data)
	}()
	m, err := calls.NextMsg(healthtest.Patience)
	if err != nil || m.Subject != bus.CallSubject("visa", "begin") || string(m.Data) != "asked" {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := m.Respond([]byte("done")); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got != "done" {
		t.Errorf("answered %q", got)
	}
	if v := o.connector.violations(t); len(v) > 0 {
		t.Errorf("refused: %v", v)
	}
	if err := m.Respond([]byte("again")); err != nil {
		t.Fatal(err)
	}
	expectRefusal(t, o.connector, "connector answers twice", "Permissions Violation for Publish")

	if err := calls.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if err := o.connector.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := o.ledger.NATS().RequestWithContext(healthtest.Within(t), bus.CallSubject("visa", "read"), nil); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("asked while nobody listens: %v", err)
	}
}

// TestOutsidersCannot lists what each credential must not be able to do.
func TestOutsidersCannot(t *testing.T) {
	t.Parallel()
	o := newOpen(t)
	p := o.Routed(t)
	bustest.SameAsLog(t, o.ledger.JetStream(), o.Book)
	event, signal := bus.EventSubject(bustest.Project, domain.TypePaymentPaid), bus.SignalSubject(p.Route, bustest.Project, p.ID)
	api := func(s string) string { return "$JS.API." + s }

	publish := []string{
		event, bus.ParkedSubject, bus.CheckpointsSubject, "payledger.v1.other", "foo", "_INBOX.x", "_INBOX_ledger.x", "_INBOX_subscriber.x",
		bus.CallSubject("visa", "begin"), "payledger.v1.connectors.visa", "_R_.x",
		api("INFO"), api("STREAM.NAMES"), api("STREAM.LIST"), api("STREAM.INFO.EVENTS"), api("STREAM.CREATE.X"),
		api("STREAM.UPDATE.EVENTS"), api("STREAM.DELETE.EVENTS"), api("STREAM.PURGE.EVENTS"), api("STREAM.MSG.GET.EVENTS"),
		api("STREAM.MSG.DELETE.EVENTS"), api("STREAM.SNAPSHOT.EVENTS"), api("STREAM.RESTORE.X"), api("STREAM.PURGE.SIGNALS"), api("STREAM.DELETE.CHECKPOINTS"),
		api("DIRECT.GET.EVENTS"), api("DIRECT.GET.EVENTS." + event),
		api("CONSUMER.CREATE.EVENTS"), api("CONSUMER.CREATE.EVENTS.mine"), api("CONSUMER.CREATE.EVENTS.mine." + event),
		api("CONSUMER.CREATE.EVENTS.subscriber"), api("CONSUMER.DURABLE.CREATE.EVENTS.mine"), api("CONSUMER.DURABLE.CREATE.EVENTS.subscriber"),
		api("CONSUMER.DELETE.EVENTS.subscriber"), api("CONSUMER.PAUSE.EVENTS.subscriber"), api("CONSUMER.RESET.EVENTS.subscriber"),
		api("CONSUMER.UNPIN.EVENTS.subscriber"), api("CONSUMER.NAMES.EVENTS"), api("CONSUMER.LIST.EVENTS"),
		api("CONSUMER.INFO.EVENTS.other"), api("CONSUMER.MSG.NEXT.EVENTS.other"),
		api("CONSUMER.INFO.SIGNALS.enforcer"), api("CONSUMER.MSG.NEXT.SIGNALS.enforcer"),
		"$JS.ACK.SIGNALS.enforcer.1.1.1.1.1", "$JS.ACK.EVENTS.other.1.1.1.1.1", "$JS.FC.x",
		"payledger.v1.details", bus.DetailsSubject("prj_1", "1.2"), "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.LEDGER.INFO", "$SYS.REQ.USER.INFO",
	}
	subscribe := []string{
		">", "*", "payledger.>", bus.EventsSubjects, "payledger.v1.events.*.project.>", bus.EventSubject(bustest.Project, projects.TypeProjectChanged),
		"payledger.v1.events.*.*.>", "payledger.v1.events.>", bus.SignalsSubjects, bus.ParkedSubject,
		"payledger.v1.connectors.>", "payledger.v1.connectors.visa.begin.more",
		"_INBOX.>", "_INBOX_ledger.>", "_INBOX*.>", "$JS.>", "$JS.API.>", "$JS.ACK.>", "$JS.EVENT.>", "$SYS.>", "_R_.>", "$KV.>",
	}
	for name, c := range map[string]struct {
		*client
		publish, subscribe []string
	}{
		"subscriber": {
			o.subscriber, append(publish, signal, bus.InboxConnector+".x"), append(subscribe, bus.InboxConnector+".>", bus.CallsSubjects, bus.CallSubject("visa", "begin")),
		},
		"connector": {
			o.connector, append(publish, bus.InboxConnector+".x", "$JS.API.CONSUMER.INFO.EVENTS.subscriber", "$JS.API.CONSUMER.MSG.NEXT.EVENTS.subscriber", "$JS.ACK.EVENTS.subscriber.1.1.1.1.1"),
			append(append(subscribe, bus.PaymentSubjects("*")...), bus.CheckpointsSubject, event, bus.InboxSubscriber+".>"),
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
	bustest.SameAsLog(t, o.ledger.JetStream(), o.Book)
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
	case <-time.After(healthtest.Patience):
		t.Errorf("%s: not refused", what)
	}
}

// TestRepliesCannotBeTurnedAgainstTheLedger: the subject an answer is asked
// on is not covered by permissions, and JetStream answers with full rights.
func TestRepliesCannotBeTurnedAgainstTheLedger(t *testing.T) {
	t.Parallel()
	o := newOpen(t)
	p := o.Routed(t)
	bustest.SameAsLog(t, o.ledger.JetStream(), o.Book)
	event := bus.EventSubject(bustest.Project, domain.TypePaymentPaid)
	before := map[string]string{}
	for _, name := range []string{bus.EventsStream, bus.SignalsStream, bus.ParkedStream} {
		before[name] = bustest.Created(t, o.ledger, name)
	}
	targets := []string{
		event, "payledger.v1.events.x", bus.SignalSubject(p.Route, bustest.Project, p.ID), bus.ParkedSubject,
		"$JS.API.STREAM.DELETE.EVENTS", "$JS.API.STREAM.DELETE.SIGNALS", "$JS.API.STREAM.PURGE.SIGNALS", "$JS.API.STREAM.DELETE.PARKED",
		"$JS.API.CONSUMER.DELETE.EVENTS.subscriber", "$JS.API.CONSUMER.DELETE.SIGNALS.enforcer",
		"$JS.ACK.SIGNALS.enforcer.1.1.1.1.1", "$SYS.REQ.SERVER.PING",
	}
	for _, target := range targets {
		// An empty pull that does not wait is answered by an empty message,
		// and one that may wait by an event.
		for _, body := range []string{`{"batch":1,"no_wait":true}`, `{"batch":1,"expires":1000000}`, `{"batch":10,"expires":1000000000}`} {
			if err := o.subscriber.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.EVENTS.subscriber", target, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.subscriber.PublishRequest("$JS.API.CONSUMER.INFO.EVENTS.subscriber", target, nil); err != nil {
			t.Fatal(err)
		}
		// Both answers to a signal: JetStream's and the enforcer's.
		err := o.connector.PublishMsg(&nats.Msg{
			Subject: bus.SignalSubject(p.Route, bustest.Project, p.ID), Reply: target, Data: []byte(`{}`),
			Header: nats.Header{bus.ReplyHeader: {target}, "Nats-Trace-Dest": {target}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	o.subscriber.violations(t)
	o.connector.violations(t)
	o.Create(t, time.Hour)
	bustest.SameAsLog(t, o.ledger.JetStream(), o.Book)
	for name, was := range before {
		if now := bustest.Created(t, o.ledger, name); now != was {
			t.Errorf("%s was made anew", name)
		}
	}
	if got := o.Payment(t, p.ID).Status; got != domain.AwaitingPayment {
		t.Errorf("payment is %s", got)
	}
}

func TestCheckpointsReachSubscribers(t *testing.T) {
	t.Parallel()
	o := newOpen(t)
	p := bus.NewCheckpoints(o.ledger, o.LogID, healthtest.Log(t), nil)
	healthtest.Run(t, p.Run)
	live, err := o.subscriber.SubscribeSync(bus.CheckpointsSubject)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.subscriber.Flush(); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		want := fmt.Sprintf("checkpoint %d", n)
		p.Publish([]byte(want))
		m, err := live.NextMsg(healthtest.Patience)
		if err != nil || string(m.Data) != want {
			t.Fatalf("live: %v, %v, want %s", m, err, want)
		}
	}
	if v := o.subscriber.violations(t); len(v) > 0 {
		t.Errorf("refused: %v", v)
	}
	if err := o.subscriber.Publish(bus.CheckpointsSubject, []byte("forged")); err != nil {
		t.Fatal(err)
	}
	expectRefusal(t, o.subscriber, "subscriber publishes a checkpoint", "Permissions Violation for Publish")
	if _, err := o.connector.SubscribeSync(bus.CheckpointsSubject); err != nil {
		t.Fatal(err)
	}
	expectRefusal(t, o.connector, "connector subscribes to checkpoints", "Permissions Violation for Subscription")
	s, err := o.ledger.JetStream().Stream(t.Context(), bus.CheckpointsStream)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	if c.MaxAge != 30*24*time.Hour || c.MaxMsgs != 10_000 || c.Discard != jetstream.DiscardOld {
		t.Errorf("the JetStream stream keeps %v, %d messages, %v", c.MaxAge, c.MaxMsgs, c.Discard)
	}
}
