package delivery

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/notifier/delivery/store"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/webhook"
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
	ledger  eventstore.Ledger
	ids     *domain.IDs
	logID   domain.ID
	schema  webhook.Schedule
	limits  Limits
	net     *network
	secrets *webhook.Secrets

	mu     sync.Mutex
	step   time.Duration // of the wall clock, away from the true one
	known  projects.Project
	folded eventstore.Position // known is as of this

	lanes  *Lanes
	lostAt time.Time // when lanes took over without the file of the node before; zero: never
	path   string
	lead   func(context.Context, *store.File) error // of the configuration
	stop   func() error                             // ends the engine
	files  int

	full atomic.Bool // the disk
	log  zerolog.Logger
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{dir: scratch(tb), net: newNetwork()}
	entropy := &random{src: rand.NewChaCha8([32]byte{1})}
	w.net.mark = w.mark
	w.ids = domain.NewIDs(w.now, entropy, domain.ID{})
	w.logID = w.ids.Next()
	w.ledger = eventstore.Ledger{Store: memory.New(), Codec: eventstore.NewCodec()}
	var err error
	if w.secrets, err = webhook.NewSecrets(map[int][32]byte{1: {7}}, 1); err != nil {
		tb.Fatal(err)
	}
	w.path = filepath.Join(w.dir, "lanes.db")
	w.project(projects.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()})
	return w
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
		Path: w.path, Mark: w.markPath(), LogID: w.logID, Ledger: w.ledger, Endpoints: w,
		Secrets: w.secrets, Sender: webhook.NewSender(webhook.Config{Transport: w.net}), Schedule: w.schema,
		IDs: w.ids, Now: w.now, Random: func() float64 { return 0.5 }, Limits: w.limits,
		Full: w.full.Load, Log: w.log, Lead: w.lead,
	}
}

// markPath is the path of the file beside the lane file; each node has its own.
func (w *world) markPath() string { return filepath.Join(filepath.Dir(w.path), "lanes.mark") }

// open opens the lanes; run lets them send.
func (w *world) open() error {
	l, err := Open(context.Background(), w.config())
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes = l
	return nil
}

// mark is the high-water mark of a lane as of the last synced change. While lanes with a
// lost file wait for the requests of the node before, those are all there are: what they
// follow from is in the file of that node.
func (w *world) mark(endpoint string, payment domain.ID) (mark uint64) {
	w.mu.Lock()
	lanes, waiting := w.lanes, time.Since(w.lostAt) < foreignTime
	w.mu.Unlock()
	if waiting {
		return math.MaxUint64
	}
	err := lanes.file.View(func(x store.Tables) error {
		at, err := x.Lane(lanes.known(endpoint).number, payment)
		mark = at.Started
		return err
	})
	if err != nil {
		panic(err)
	}
	return mark
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	l := w.lanes
	go func() { ended <- l.Run(ctx) }()
	w.stop = func() error {
		cancel()
		return <-ended
	}
}

func (w *world) start(tb testing.TB) {
	tb.Helper()
	if err := w.open(); err != nil {
		tb.Fatal(err)
	}
	w.run()
}

// end stops the engine in good order.
func (w *world) end() error {
	if err := w.stop(); err != nil {
		return err
	}
	return w.lanes.Close()
}

// crash ends the engine as if its process had ended now: what was not synced
// is lost, and waiting callers get no answer. power lets a copy of the file as it is
// on the disk take its place.
func (w *world) crash() error {
	// The engine lives on a little after the file is copied: nobody hears what
	// a process that has ended would not have said.
	w.net.setDown(true)
	defer w.net.setDown(false)
	w.files++
	next := filepath.Join(w.dir, fmt.Sprintf("lanes%d.db", w.files))
	if err := w.copyTo(next); err != nil {
		return err
	}
	mark, err := os.ReadFile(w.markPath())
	if err != nil {
		return err
	}
	w.net.cut()
	if err := w.end(); err != nil {
		return err
	}
	w.path = next
	return os.WriteFile(w.markPath(), mark, 0o600)
}

// copyTo copies the lane file as of its last synced change.
func (w *world) copyTo(path string) error {
	return w.lanes.file.View(func(x store.Tables) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		_, err = x.Bolt().WriteTo(f)
		return errors.Join(err, f.Close())
	})
}

// Project folds the project's stream, again when the log has grown.
func (w *world) Project(ctx context.Context, id string) (projects.Project, bool, error) {
	end, err := w.ledger.Store.Last(ctx)
	if err != nil {
		return projects.Project{}, false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.folded < end {
		p, _, err := eventstore.Fold(ctx, w.ledger, eventstore.ProjectStream(testProject), projects.Project{ID: testProject})
		if err != nil {
			return p, false, err
		}
		w.known, w.folded = p, end
	}
	return w.known, id == testProject, nil
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

func (w *world) state() projects.Project {
	p, _, err := w.Project(context.Background(), testProject)
	if err != nil {
		panic(err)
	}
	return p
}

// payment creates one; do changes it and reports whether anything happened.
func (w *world) payment() domain.ID {
	id, event := w.ids.Pair()
	_, err := eventstore.Execute(context.Background(), w.ledger, eventstore.PaymentStream(testProject, id),
		domain.Payment{Project: testProject, ID: id}, domain.PaymentCommand(domain.CreatePayment{
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

// fanOut hands the events of the log over, as the fan-out does.
func (w *world) fanOut() error {
	ctx := context.Background()
	after, base, err := w.lanes.Start()
	if err != nil {
		return err
	}
	added := make(map[string]eventstore.Position)
	endpoints := w.state().Endpoints
	newest := make(map[string]domain.ID) // at or below base, by endpoint and payment
	var found []Event
	upTo := after
	for r, err := range w.ledger.Store.Scan(ctx, 0, eventstore.Filter{}) {
		if err != nil {
			return err
		}
		e, err := w.ledger.Codec.Decode(r)
		if err != nil {
			return err
		}
		upTo = max(upTo, r.Position)
		if a, ok := e.(projects.WebhookEndpointAdded); ok {
			added[a.EndpointID] = r.Position
		}
		payment, ok := domain.ParseID(r.Stream.ID)
		kind, told := domain.KindOf(e)
		if !ok || !told {
			continue
		}
		for _, to := range endpoints {
			if at := added[to.ID]; at == 0 || at > r.Position || !to.Wants(kind) {
				continue
			}
			if r.Position <= base {
				newest[to.ID+payment.String()] = r.Commit
			}
			if r.Position > after {
				found = append(found, Event{
					Project: testProject, Endpoint: to.ID, Payment: payment, ID: r.Commit, Kind: kind, Sequence: r.Sequence, Position: r.Position,
				})
			}
		}
	}
	kept := found[:0]
	for _, e := range found {
		e.Unconfirmed = e.Position <= base && newest[e.Endpoint+e.Payment.String()] != e.ID
		if !e.Unconfirmed || e.Kind.Final() {
			kept = append(kept, e)
		}
	}
	if err := w.lanes.Enqueue(ctx, upTo, kept); err != nil {
		return err
	}
	w.net.noteEnqueued(slices.DeleteFunc(kept, func(e Event) bool { return e.Unconfirmed }))
	return nil
}

// list reads all deliveries of an endpoint, page by page.
func (w *world) list(f domain.DeliveryFilter) ([]domain.DeliveryObject, error) {
	var all []domain.DeliveryObject
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
