package notifier

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/notifier/acquirer"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if serverBinary.dir != "" {
			_ = os.RemoveAll(serverBinary.dir)
		}
		os.Exit(code)
	}),
		// A JetStream stream that is being made while its server shuts down is
		// not closed by nats-server.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

const testProject = "prj_test"

// book is a ledger with a clock, on a store in memory.
type book struct {
	eventstore.Ledger
	logID domain.ID
	ids   *domain.IDs
	now   func() time.Time
}

func newBook(tb testing.TB) *book {
	tb.Helper()
	store := memory.New()
	tb.Cleanup(func() { _ = store.Close() })
	ids := domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	return &book{
		Ledger: eventstore.Ledger{Store: store, Codec: eventstore.NewCodec()},
		logID:  ids.Next(), ids: ids, now: time.Now,
	}
}

func (b *book) create(tb testing.TB, lifetime time.Duration) domain.ID {
	tb.Helper()
	settings := domain.DefaultSettings()
	settings.LifetimeSeconds = int(lifetime.Seconds())
	id, event := b.ids.Pair()
	_, err := eventstore.Execute(context.Background(), b.Ledger, eventstore.PaymentStream(testProject, id),
		domain.Payment{Project: testProject, ID: id}, domain.PaymentCommand(domain.CreatePayment{
			At: domain.IDTime(event), Amount: 150000, Currency: domain.DefaultCurrency, Settings: settings,
			Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
		}), eventstore.Order{EventID: event, New: true})
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

func (b *book) do(tb testing.TB, id domain.ID, cmd domain.PaymentCommand) domain.Payment {
	tb.Helper()
	r, err := eventstore.Execute(context.Background(), b.Ledger, eventstore.PaymentStream(testProject, id),
		domain.Payment{Project: testProject, ID: id}, cmd, eventstore.Order{EventID: b.ids.Next()})
	if err != nil {
		tb.Fatal(err)
	}
	return r.State
}

func (b *book) routed(tb testing.TB) domain.Payment {
	tb.Helper()
	return b.do(tb, b.create(tb, time.Hour), domain.AssignRoute{Table: domain.SandboxTable()})
}

func (b *book) payment(tb testing.TB, id domain.ID) domain.Payment {
	tb.Helper()
	p, _, err := eventstore.Fold(context.Background(), b.Ledger, eventstore.PaymentStream(testProject, id),
		domain.Payment{Project: testProject, ID: id})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func (b *book) last(tb testing.TB) eventstore.Position {
	tb.Helper()
	last, err := b.Store.Last(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return last
}

func (b *book) records(tb testing.TB) []eventstore.Stored {
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

// views answers the workers' questions by folding the whole log each time.
type views struct{ *book }

func (v views) fold(ctx context.Context) (map[domain.ID]domain.Payment, map[domain.ID]eventstore.Position, error) {
	payments, created := map[domain.ID]domain.Payment{}, map[domain.ID]eventstore.Position{}
	for r, err := range v.Store.Scan(ctx, 0, eventstore.Filter{Kind: eventstore.KindPayment}) {
		if err != nil {
			return nil, nil, err
		}
		id, ok := domain.ParseID(r.Stream.ID)
		if !ok {
			return nil, nil, fmt.Errorf("stream %q", r.Stream.ID)
		}
		e, err := v.Codec.Decode(r)
		if err != nil {
			return nil, nil, err
		}
		p, seen := payments[id]
		if !seen {
			p, created[id] = domain.Payment{Project: r.Stream.Project, ID: id}, r.Position
		}
		payments[id] = p.Evolve(e)
	}
	return payments, created, nil
}

func (v views) OldestUnrouted(ctx context.Context) (eventstore.Position, bool, error) {
	payments, created, err := v.fold(ctx)
	var oldest eventstore.Position
	for id, p := range payments {
		if p.Status == domain.Created && (oldest == 0 || created[id] < oldest) {
			oldest = created[id]
		}
	}
	return oldest, oldest != 0, err
}

func (v views) open(ctx context.Context) ([]domain.Payment, error) {
	payments, _, err := v.fold(ctx)
	var open []domain.Payment
	for _, p := range payments {
		if !p.Status.Final() {
			open = append(open, p)
		}
	}
	slices.SortFunc(open, func(a, b domain.Payment) int { return int(a.ExpiryDue() - b.ExpiryDue()) })
	return open, err
}

func (v views) EachDue(ctx context.Context, before domain.Instant, limit int, fn func(string, domain.ID) error) error {
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

func (v views) NextDue(ctx context.Context) (domain.Instant, bool, error) {
	open, err := v.open(ctx)
	if err != nil || len(open) == 0 {
		return 0, false, err
	}
	return open[0].ExpiryDue(), true, nil
}

func startServer(tb testing.TB, c ServerConfig) *Server {
	tb.Helper()
	if c.Dir == "" {
		c.Dir = tb.TempDir()
	}
	c.Log, c.WatchEvery = testLog(tb), 50*time.Millisecond
	s, err := StartServer(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Shutdown)
	return s
}

func testLog(tb testing.TB) zerolog.Logger {
	return zerolog.New(zerolog.NewTestWriter(quiet{tb})).Level(zerolog.InfoLevel)
}

// quiet drops what is logged after a test has ended.
type quiet struct{ testing.TB }

func (q quiet) Log(args ...any) {
	if q.Context().Err() == nil {
		q.TB.Log(args...)
	}
}

func connectTo(tb testing.TB, s *Server) *Conn {
	tb.Helper()
	return connectAs(tb, s, userLedger)
}

func connectAs(tb testing.TB, s *Server, user string) *Conn {
	tb.Helper()
	c, err := s.connectAs(user)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// run lets a part work until the test or stop ends it.
func run(tb testing.TB, part func(context.Context) error) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			tb.Error(err)
		}
	}
	tb.Cleanup(stop)
	return stop
}

func newRelay(c *Conn, b *book) *Relay { return measuredRelay(c, b, nil) }

func measuredRelay(c *Conn, b *book, metrics prometheus.Registerer) *Relay {
	return NewRelay(RelayConfig{Conn: c, Store: b.Store, LogID: b.logID, Log: zerolog.Nop(), Metrics: metrics, Times: RelayTimes{
		Retry:   quick(),
		Foreign: 50 * time.Millisecond, Watch: 50 * time.Millisecond, Sweep: time.Hour, Answer: 5 * time.Second,
	}})
}

// quick are pauses short enough for tests.
func quick() backoff { return backoff{first: 5 * time.Millisecond, most: 50 * time.Millisecond} }

func quickDispatcher() DispatcherTimes {
	return DispatcherTimes{Retry: quick(), Watch: 50 * time.Millisecond, Heartbeat: 500 * time.Millisecond}
}

func newWorkers(tb testing.TB, c *Conn, b *book) *Workers {
	tb.Helper()
	w, err := NewWorkers(WorkersConfig{
		Conn: c, Ledger: b.Ledger, LogID: b.logID, IDs: b.ids, Now: b.now,
		Table: domain.SandboxTable(), Unrouted: views{b}, Due: views{b}, Log: testLog(tb), Times: quickDispatcher(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func newEnforcer(tb testing.TB, c *Conn, b *book) *Enforcer {
	tb.Helper()
	times := DefaultEnforcerTimes()
	times.Retry, times.Watch, times.Heartbeat = quick(), 100*time.Millisecond, 500*time.Millisecond
	return NewEnforcer(EnforcerConfig{Conn: c, Ledger: b.Ledger, LogID: b.logID, IDs: b.ids, Times: times, Log: zerolog.Nop()})
}

// measured is the value of a metric that has no labels.
func measured(tb testing.TB, r prometheus.Gatherer, name string) float64 {
	tb.Helper()
	families, err := r.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	tb.Fatalf("no metric %s", name)
	return 0
}

// patience is how long a test waits for what comes at once, except on a machine
// that is busy with all the other tests.
const patience = 2 * time.Minute

// eventually waits until the condition holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not within %v", what, patience)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// sameAsLog waits until EVENTS holds the whole log and checks every message
// against its record.
func sameAsLog(tb testing.TB, js jetstream.JetStream, b *book) {
	tb.Helper()
	var want []eventstore.Stored
	var stream jetstream.Stream
	eventually(tb, "the copy is complete", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		var err error
		if stream, err = js.Stream(ctx, EventsStream); err != nil {
			return false
		}
		want = b.records(tb)
		return stream.CachedInfo().State.LastSeq == uint64(len(want))
	})
	if s := stream.CachedInfo().State; s.Msgs != uint64(len(want)) {
		tb.Fatalf("%d messages for %d records", s.Msgs, len(want))
	}
	for _, r := range want {
		m, err := stream.GetMsg(within(tb), uint64(r.Position))
		if err != nil {
			tb.Fatalf("position %d: %v", r.Position, err)
		}
		if m.Subject != EventSubject(r.Stream) || string(m.Data) != string(r.Body) {
			tb.Fatalf("position %d: %s %s, want %s %s", r.Position, m.Subject, m.Data, EventSubject(r.Stream), r.Body)
		}
	}
}

// register records project events, which no outsider may see.
func (b *book) register(t *testing.T) {
	t.Helper()
	for _, cmd := range []domain.ProjectCommand{
		domain.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()},
		domain.IssueKey{KeyID: "key_1", Hash: domain.HashKey("secret"), Scopes: domain.AllScopes()},
	} {
		_, err := eventstore.Execute(t.Context(), b.Ledger, eventstore.ProjectStream(testProject),
			domain.Project{ID: testProject}, cmd, eventstore.Order{EventID: b.ids.Next()})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	tb.Cleanup(cancel)
	return ctx
}

func allRouted(t *testing.T, b *book) {
	t.Helper()
	eventually(t, "every payment has its route", func() bool {
		_, some, err := views{b}.OldestUnrouted(context.Background())
		return err == nil && !some
	})
}

func created(t *testing.T, c *Conn, stream string) string {
	t.Helper()
	s, err := c.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatalf("%s: %v", stream, err)
	}
	return fmt.Sprint(s.CachedInfo().Created)
}

// paid is the signal that pays p.
func paid(p domain.Payment) domain.Signal {
	return domain.Signal{
		Route: domain.SandboxRoute, Outcome: domain.OutcomePaid, Reference: "ref-" + p.ID.String(), Amount: p.Amount, Currency: p.Currency,
		StartedAt: p.CreatedAt,
	}
}

func encode(t *testing.T, s domain.Signal) []byte {
	t.Helper()
	b, err := acquirer.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// failing answers the errors it was given before it appends.
type failing struct {
	eventstore.Store
	left chan error
}

func (f *failing) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	done := make([]eventstore.Appended, len(commits))
	for i, c := range commits {
		select {
		case done[i].Err = <-f.left:
		default:
			done[i].Stored, done[i].Err = eventstore.AppendOne(ctx, f.Store, c)
		}
	}
	return done
}
