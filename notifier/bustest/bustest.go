// Package bustest is what tests of the rooms on NATS share: a ledger in memory,
// and an embedded NATS server.
package bustest

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/health/healthtest"
)

// Project is the project that all of a Book's payments belong to.
const Project = "prj_test"

// Book is a ledger with a clock, on a store in memory.
type Book struct {
	eventstore.Ledger
	LogID domain.ID
	IDs   *domain.IDs
	Now   func() time.Time

	folded *folded // for Views
}

// NewBook makes an empty ledger, which ends with the test.
func NewBook(tb testing.TB) *Book {
	tb.Helper()
	store := memory.New()
	tb.Cleanup(func() { _ = store.Close() })
	ids := domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	return &Book{
		Ledger: eventstore.Ledger{Store: store, Codec: eventstore.NewCodec()},
		LogID:  ids.Next(), IDs: ids, Now: time.Now,
		folded: &folded{payments: map[domain.ID]domain.Payment{}, created: map[domain.ID]eventstore.Position{}},
	}
}

// Create makes a payment that expires after this time.
func (b *Book) Create(tb testing.TB, lifetime time.Duration) domain.ID {
	tb.Helper()
	settings := domain.DefaultSettings()
	settings.LifetimeSeconds = int(lifetime.Seconds())
	id, event := b.IDs.Pair()
	_, err := eventstore.Execute(context.Background(), b.Ledger, eventstore.PaymentStream(Project, id),
		domain.Payment{Project: Project, ID: id}, domain.PaymentCommand(domain.CreatePayment{
			At: domain.IDTime(event), Amount: 150000, Currency: domain.DefaultCurrency, Settings: settings,
			Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
		}), eventstore.Order{EventID: event, New: true})
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// Do runs a command on a payment.
func (b *Book) Do(tb testing.TB, id domain.ID, cmd domain.PaymentCommand) domain.Payment {
	tb.Helper()
	r, err := eventstore.Execute(context.Background(), b.Ledger, eventstore.PaymentStream(Project, id),
		domain.Payment{Project: Project, ID: id}, cmd, eventstore.Order{EventID: b.IDs.Next()})
	if err != nil {
		tb.Fatal(err)
	}
	return r.State
}

// Routed makes a payment with the sandbox for its route.
func (b *Book) Routed(tb testing.TB) domain.Payment {
	tb.Helper()
	return b.Do(tb, b.Create(tb, time.Hour), domain.AssignRoute{Table: domain.SandboxTable()})
}

// Payment folds a payment from the log.
func (b *Book) Payment(tb testing.TB, id domain.ID) domain.Payment {
	tb.Helper()
	p, _, err := eventstore.Fold(context.Background(), b.Ledger, eventstore.PaymentStream(Project, id),
		domain.Payment{Project: Project, ID: id})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Last is the position of the newest record.
func (b *Book) Last(tb testing.TB) eventstore.Position {
	tb.Helper()
	last, err := b.Store.Last(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return last
}

// Records is the whole log.
func (b *Book) Records(tb testing.TB) []eventstore.Stored {
	tb.Helper()
	var all []eventstore.Stored
	for r, err := range b.Store.Scan(context.Background(), 0, eventstore.Filter{}) {
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// Views answers the workers' questions from the log, which it folds as far as it
// has not yet.
type Views struct{ *Book }

// folded is what the log says of payments, up to a position.
type folded struct {
	mu       sync.Mutex
	upTo     eventstore.Position
	payments map[domain.ID]domain.Payment
	created  map[domain.ID]eventstore.Position
}

// fold brings f up to date. f.mu is held.
func (f *folded) fold(ctx context.Context, l eventstore.Ledger) error {
	for r, err := range l.Store.Scan(ctx, f.upTo, eventstore.Filter{Kind: eventstore.KindPayment}) {
		if err != nil {
			return err
		}
		id, ok := domain.ParseID(r.Stream.ID)
		if !ok {
			return fmt.Errorf("stream %q", r.Stream.ID)
		}
		e, err := l.Codec.Decode(r)
		if err != nil {
			return err
		}
		p, seen := f.payments[id]
		if !seen {
			p, f.created[id] = domain.Payment{Project: r.Stream.Project, ID: id}, r.Position
		}
		f.payments[id], f.upTo = p.Evolve(e), r.Position
	}
	return nil
}

// Payment finds a payment.
func (v Views) Payment(ctx context.Context, id domain.ID) (domain.Payment, bool, error) {
	f := v.folded
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fold(ctx, v.Ledger)
	p, ok := f.payments[id]
	return p, ok, err
}

// OldestUnrouted implements worker.UnroutedView.
func (v Views) OldestUnrouted(ctx context.Context) (eventstore.Position, bool, error) {
	f := v.folded
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fold(ctx, v.Ledger)
	var oldest eventstore.Position
	for id, p := range f.payments {
		if p.Status == domain.Created && (oldest == 0 || f.created[id] < oldest) {
			oldest = f.created[id]
		}
	}
	return oldest, oldest != 0, err
}

func (v Views) open(ctx context.Context) ([]domain.Payment, error) {
	f := v.folded
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fold(ctx, v.Ledger)
	var open []domain.Payment
	for _, p := range f.payments {
		if !p.Status.Final() {
			open = append(open, p)
		}
	}
	slices.SortFunc(open, func(a, b domain.Payment) int { return int(a.ExpiryDue() - b.ExpiryDue()) })
	return open, err
}

// EachDue implements worker.DueView.
func (v Views) EachDue(ctx context.Context, before domain.Instant, limit int, fn func(string, domain.ID) error) error {
	open, err := v.open(ctx)
	if err != nil {
		return err
	}
	for _, p := range open[:min(limit, len(open))] {
		if p.ExpiryDue() >= before {
			break
		}
		if err := fn(p.Project, p.ID); err != nil {
			return err
		}
	}
	return nil
}

// NextDue implements worker.DueView.
func (v Views) NextDue(ctx context.Context) (domain.Instant, bool, error) {
	open, err := v.open(ctx)
	if err != nil || len(open) == 0 {
		return 0, false, err
	}
	return open[0].ExpiryDue(), true, nil
}

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

// QuickReader is the pauses of a reader in tests.
func QuickReader() bus.ReaderTimes {
	return bus.ReaderTimes{Retry: healthtest.Quick(), Watch: 50 * time.Millisecond}
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
			if m.Subject != bus.EventSubject(r.Stream) || string(m.Data) != string(r.Body) {
				tb.Fatalf("position %d: %s %s, want %s %s", r.Position, m.Subject, m.Data, bus.EventSubject(r.Stream), r.Body)
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

// Register records project events, which no outsider may see.
func (b *Book) Register(t *testing.T) {
	t.Helper()
	for _, cmd := range []domain.ProjectCommand{
		domain.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()},
		domain.IssueKey{KeyID: "key_1", Hash: domain.HashKey("secret"), Scopes: domain.AllScopes()},
	} {
		_, err := eventstore.Execute(t.Context(), b.Ledger, eventstore.ProjectStream(Project),
			domain.Project{ID: Project}, cmd, eventstore.Order{EventID: b.IDs.Next()})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// AllRouted waits until every payment has a route.
func AllRouted(t *testing.T, b *Book) {
	t.Helper()
	healthtest.Eventually(t, "every payment has its route", func() bool {
		_, some, err := Views{b}.OldestUnrouted(context.Background())
		return err == nil && !some
	})
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

// Paid is the signal that pays p.
func Paid(p domain.Payment) domain.Signal {
	return domain.Signal{
		Route: domain.SandboxRoute, Outcome: domain.OutcomePaid, Reference: "ref-" + p.ID.String(), Amount: p.Amount, Currency: p.Currency,
		StartedAt: p.CreatedAt,
	}
}

// Encode is a signal as it is published.
func Encode(t *testing.T, s domain.Signal) []byte {
	t.Helper()
	b, err := bus.EncodeSignal(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Failing answers the errors it was given before it appends.
type Failing struct {
	eventstore.Store
	Left chan error
}

// Append implements eventstore.Store.
func (f *Failing) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	done := make([]eventstore.Appended, len(commits))
	for i, c := range commits {
		select {
		case done[i].Err = <-f.Left:
		default:
			done[i].Stored, done[i].Err = eventstore.AppendOne(ctx, f.Store, c)
		}
	}
	return done
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

// ignoreNotFound: what reads EVENTS drops a consumer of its own when it is
// done, perhaps between the list of names and this deletion.
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
	c, err := bus.Connect(s.ClientURL(), healthtest.Log(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}
