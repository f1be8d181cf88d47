package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/notifier/health"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/webhook"
	"payledger/projections"
)

func TestMain(m *testing.M) { healthtest.VerifyMain(m) }

const testProject = "prj_test"

// scratch is a directory in memory where there is one: what is tested here is
// what is written when, not the disk.
func scratch(tb testing.TB) string {
	tb.Helper()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		if dir, err := os.MkdirTemp("/dev/shm", "lanes-*"); err == nil { //nolint:usetesting // the system's own is on a disk
			tb.Cleanup(func() { os.RemoveAll(dir) })
			return dir
		}
	}
	return tb.TempDir()
}

// random fills ids without the system's randomness, so that a script always
// plays the same.
type random struct {
	mu  sync.Mutex
	src *rand.ChaCha8
}

func (r *random) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.src.Read(b)
}

// world is a ledger, the endpoints of one project, their receivers, and the
// lanes between them.
type world struct {
	dir     string
	store   *memory.Store
	ledger  eventstore.Ledger
	ids     *domain.IDs
	logID   domain.ID
	schema  webhook.Schedule
	limits  Limits
	net     *network
	secrets *webhook.Secrets
	shared  bool
	metrics prometheus.Registerer
	log     zerolog.Logger

	mu   sync.Mutex
	step time.Duration // of the wall clock, away from the true one

	views    *projections.Engine
	unfollow func() error // ends the views
	files    int
	told     eventstore.Position            // the network knows of the events up to there
	added    map[string]eventstore.Position // endpoints

	lanes   *Lanes
	current atomic.Pointer[Lanes] // of the node that is to send
	stop    func() error          // ends the sender
	full    atomic.Bool           // the disk
	busy    atomic.Bool           // the log: it does not say where it ends
	dead    atomic.Bool           // the process, as far as the log is concerned
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := newEmptyWorld(tb)
	w.project(projects.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()})
	return w
}

// newEmptyWorld makes a world without its project: nothing is in the log.
func newEmptyWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{
		dir: scratch(tb), net: newNetwork(), store: memory.New(), schema: webhook.DefaultSchedule(), added: make(map[string]eventstore.Position),
	}
	entropy := &random{src: rand.NewChaCha8([32]byte{1})}
	w.net.mark = w.mark
	w.ids = domain.NewIDs(w.now, entropy, domain.ID{})
	w.logID = w.ids.Next()
	w.ledger = eventstore.Ledger{Store: &disk{w.store, w}, Codec: eventstore.NewCodec()}
	var err error
	if w.secrets, err = webhook.NewSecrets(map[int][32]byte{1: {7}}, 1); err != nil {
		tb.Fatal(err)
	}
	if err := w.follow(); err != nil {
		tb.Fatal(err)
	}
	return w
}

// disk is the store of a world, which may be full or gone for what is sent.
type disk struct {
	*memory.Store
	w *world
}

// Append implements eventstore.Store.
func (d *disk) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	switch of := commits[0].Record.Stream.Kind; {
	case of == eventstore.KindDeliveries && d.w.dead.Load():
		return []eventstore.Appended{{Err: eventstore.ErrClosed}}
	case of == eventstore.KindDeliveries && d.w.full.Load():
		return []eventstore.Appended{{Err: eventstore.ErrFull}}
	}
	if n := len(commits[0].Record.Body); n > 48<<10 {
		d.w.net.note("an event has %d bytes", n)
	}
	return d.Store.Append(ctx, commits...)
}

// Last implements eventstore.Store.
func (d *disk) Last(ctx context.Context) (eventstore.Position, error) {
	if d.w.busy.Load() {
		return 0, eventstore.ErrBusy
	}
	return d.Store.Last(ctx)
}

func (w *world) path() string { return filepath.Join(w.dir, fmt.Sprintf("projections%d.db", w.files)) }

// follow opens the views and lets them follow the log.
func (w *world) follow() (err error) {
	w.views, err = projections.Open(context.Background(), projections.Config{
		Path: w.path(), Store: w.store, Codec: w.ledger.Codec, LogID: w.logID, FlushEvery: time.Hour,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	views := w.views
	go func() { ended <- views.Run(ctx) }()
	w.unfollow = sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-ended, views.Close())
	})
	return nil
}

// now is the wall clock.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.step)
}

func (w *world) setBack(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.step -= d
}

func (w *world) config() Config {
	return Config{
		Ledger: w.ledger, Rows: w.views.Deliveries(), Views: w.views,
		Secrets: w.secrets, Sender: webhook.NewSender(webhook.Config{Transport: w.net}), Schedule: w.schema,
		IDs: w.ids, Now: w.now, Random: func() float64 { return 0.5 }, Limits: w.limits, Log: w.log, Shared: w.shared,
	}
}

// mark is the high-water mark of a lane as the log has it.
func (w *world) mark(endpoint string, payment domain.ID) uint64 {
	rows := w.views.Deliveries()
	if err := rows.Fresh(context.Background()); err != nil { // the views of another node than the one that sends may be behind
		panic(err)
	}
	l, _, err := rows.Lane(endpoint, payment)
	if err != nil {
		panic(err)
	}
	return l.Started
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	l := w.lanes
	w.current.Store(l)
	go func() {
		for {
			err := l.Run(ctx, w.metrics)
			if lost := w.shared && errors.Is(err, ErrLost); !lost {
				ended <- err
				return
			}
			// As the program does: the one that is to send begins again.
			if w.current.Load() != l || !health.Pause(ctx, time.Second) {
				ended <- nil
				return
			}
		}
	}()
	w.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
}

func (w *world) start(tb testing.TB) {
	tb.Helper()
	w.lanes = New(w.config())
	w.run()
}

// sender is what sends, once it does.
func (w *world) sender() *sender {
	for range 1000 {
		if s := w.lanes.sender.Load(); s != nil {
			return s
		}
		time.Sleep(time.Millisecond)
	}
	panic("nobody sends")
}

// together has events come while nothing is sent, so that the sender finds all of them.
func (w *world) together(t *testing.T, fn func()) {
	t.Helper()
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	fn()
	if err := w.fanOut(); err != nil {
		t.Fatal(err)
	}
	w.start(t)
	w.sender()
}

// end stops the sender in good order.
func (w *world) end() error { return w.stop() }

// close ends the views.
func (w *world) close() error { return errors.Join(w.unfollow(), w.store.Close()) }

// crash ends the sender as if its process had ended now: nothing of what is under way is
// recorded.
func (w *world) crash() error {
	w.net.setDown(true)
	defer w.net.setDown(false)
	w.dead.Store(true)
	defer w.dead.Store(false)
	w.net.cut()
	if err := w.end(); !errors.Is(err, eventstore.ErrClosed) {
		return err
	}
	return nil
}

func (w *world) state() projects.Project {
	p, _, err := w.views.Project(context.Background(), testProject)
	if err != nil {
		panic(err)
	}
	return p
}

func (w *world) project(cmd projects.ProjectCommand) {
	_, err := eventstore.Execute(context.Background(), w.ledger, eventstore.ProjectStream(testProject), projects.Project{ID: testProject},
		cmd, eventstore.Order{EventID: w.ids.Next()})
	if err != nil {
		panic(err)
	}
}

// endpoint adds an endpoint for some kinds, all if none are named.
func (w *world) endpoint(name string, kinds ...domain.Kind) string {
	if len(kinds) == 0 {
		kinds = domain.Kinds()
	}
	id := "we_" + name
	w.project(projects.AddEndpoint{
		At: domain.InstantOf(w.now()), EndpointID: id, URL: "https://" + name + ".example/hooks", Kinds: kinds, KeyVersion: 1,
	})
	return id
}

// payment creates one; do changes it and reports whether anything happened.
func (w *world) payment() domain.ID { return w.paymentOf(testProject) }

func (w *world) paymentOf(project string) domain.ID {
	id, event := w.ids.Pair()
	_, err := eventstore.Execute(context.Background(), w.ledger, eventstore.PaymentStream(project, id),
		domain.Payment{Project: project, ID: id}, domain.PaymentCommand(domain.CreatePayment{
			At: domain.IDTime(event), Amount: 150000, Currency: domain.DefaultCurrency, Settings: domain.DefaultSettings(),
			Link: domain.Link{Base: "https://pay.example", KeyVersion: 1, Render: 1},
		}), eventstore.Order{EventID: event, New: true})
	if err != nil {
		panic(err)
	}
	return id
}

func (w *world) do(id domain.ID, cmd domain.PaymentCommand) domain.ID {
	r, err := eventstore.Execute(context.Background(), w.ledger, eventstore.PaymentStream(testProject, id),
		domain.Payment{Project: testProject, ID: id}, cmd, eventstore.Order{EventID: w.ids.Next()})
	if err != nil {
		panic(err)
	}
	return r.Stored.Commit
}

func (w *world) route(id domain.ID) domain.ID {
	return w.do(id, domain.AssignRoute{Table: domain.SandboxTable()})
}

func (w *world) signal(id domain.ID, o domain.Outcome, refund *domain.ID) domain.ID {
	p := w.fold(id)
	return w.do(id, domain.ApplySignal{Signal: domain.Signal{
		Route: p.Route, Outcome: o, Reference: w.ids.Next().String(), RefundID: refund, Amount: p.Amount, Currency: p.Currency, StartedAt: p.CreatedAt,
	}})
}

func (w *world) fold(id domain.ID) domain.Payment {
	p, _, err := eventstore.Fold(context.Background(), w.ledger, eventstore.PaymentStream(testProject, id), domain.Payment{Project: testProject, ID: id})
	if err != nil {
		panic(err)
	}
	return p
}

// advance takes a payment a step on: to its route, an outcome, a refund, the
// refund's outcome. choice says which.
func (w *world) advance(id domain.ID, choice int) {
	p := w.fold(id)
	switch p.Status {
	case domain.Created:
		w.route(id)
	case domain.AwaitingPayment:
		w.signal(id, [...]domain.Outcome{domain.OutcomePaid, domain.OutcomePaid, domain.OutcomePaid, domain.OutcomeFailed}[choice%4], nil)
	case domain.Paid:
		for _, r := range p.Refunds {
			if r.Status == domain.RefundPending {
				w.signal(id, [...]domain.Outcome{domain.OutcomeFailed, domain.OutcomeFailed, domain.OutcomeSucceeded}[choice%3], &r.ID)
				return
			}
			if r.Status == domain.RefundSucceeded {
				return
			}
		}
		refund, event := w.ids.Pair()
		w.do(id, domain.CreateRefund{At: domain.IDTime(event), RefundID: refund})
	}
}

// fanOut waits until the events of the log are queued, and tells the network of them.
func (w *world) fanOut() error {
	ctx := context.Background()
	if err := w.views.Deliveries().Fresh(ctx); err != nil {
		return err
	}
	endpoints := w.state().Endpoints
	for r, err := range w.ledger.Store.Scan(ctx, w.told, eventstore.Filter{}) {
		if err != nil {
			return err
		}
		w.told = r.Position
		e, err := w.ledger.Codec.Decode(r)
		if err != nil {
			return err
		}
		if one, ok := e.(projects.WebhookEndpointAdded); ok {
			w.added[one.EndpointID] = r.Position
		}
		payment, ok := domain.ParseID(r.Stream.ID)
		kind, told := domain.KindOf(e)
		if !ok || !told {
			continue
		}
		for _, to := range endpoints {
			if kind, wanted := to.KindFor(kind, r.Sequence); wanted && w.added[to.ID] < r.Position {
				w.net.noteEnqueued(to.ID, payment, r, kind)
			}
		}
	}
	return nil
}

// list reads all deliveries of an endpoint, page by page.
func (w *world) list(f domain.DeliveryFilter) ([]domain.DeliveryObject, error) {
	var all []domain.DeliveryObject
	f.Project = cmp.Or(f.Project, testProject)
	for {
		page, err := w.lanes.Deliveries(context.Background(), f)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Deliveries...)
		if f.After = page.After; f.After == "" {
			return all, nil
		}
	}
}
