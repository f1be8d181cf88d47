package projections

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
)

// world is a log with the states its events lead to, grown by random commands.
type world struct {
	tb     testing.TB
	store  *memory.Store
	codec  *eventstore.Codec
	ids    *domain.IDs
	log    domain.ID
	now    time.Time
	intn   func(n int) int
	random *rand.ChaCha8

	projects []string
	payments map[domain.ID]domain.Payment
	order    []domain.ID // of the payments, as they were created
	created  map[domain.ID]eventstore.Position
	settled  map[string]domain.Project
	added    map[string]eventstore.Position // of the endpoints there are, by id
}

// newWorld draws its choices from intn.
func newWorld(tb testing.TB, intn func(n int) int) *world {
	w := &world{
		tb: tb, store: memory.New(), codec: eventstore.NewCodec(), intn: intn,
		now:      time.UnixMilli(1_795_169_730_123),
		random:   rand.NewChaCha8([32]byte{1}),
		payments: make(map[domain.ID]domain.Payment),
		created:  make(map[domain.ID]eventstore.Position),
		settled:  make(map[string]domain.Project),
		added:    make(map[string]eventstore.Position),
	}
	w.ids = domain.NewIDs(func() time.Time { return w.now }, w.random, domain.ID{})
	w.log = w.ids.Next()
	return w
}

// seeded is a world whose choices depend on the seed alone.
func seeded(tb testing.TB, seed uint64) *world {
	return newWorld(tb, rand.New(rand.NewPCG(seed, seed)).IntN)
}

func (w *world) ledger() eventstore.Ledger { return eventstore.Ledger{Store: w.store, Codec: w.codec} }

func (w *world) config(dir string) Config {
	return Config{
		Path: filepath.Join(dir, "projections.db"), Store: w.store, Codec: w.codec, LogID: w.log,
		FlushEvery: time.Hour,
	}
}

func pick[T any](w *world, from ...T) T { return from[w.intn(len(from))] }

// step issues one random command.
func (w *world) step() {
	w.tb.Helper()
	w.now = w.now.Add(pick(w, 0, 0, time.Millisecond, time.Second, time.Minute, 9*time.Hour))
	if len(w.projects) == 0 {
		w.project()
		return
	}
	switch n := w.intn(20); {
	case n == 0:
		w.project()
	case n < 8 || len(w.order) == 0:
		w.create()
	default:
		p := w.payments[w.order[max(0, len(w.order)-1-w.intn(12))]]
		w.advance(p)
	}
}

func (w *world) project() {
	w.tb.Helper()
	if len(w.projects) < 3 {
		id := fmt.Sprintf("prj_%d", len(w.projects))
		w.projects = append(w.projects, id)
		w.commandProject(id, domain.RegisterProject{Name: "Лавка " + id, Settings: w.settings()})
		return
	}
	id := pick(w, w.projects...)
	switch keys := w.settled[id].Keys; w.intn(6) {
	case 0:
		w.commandProject(id, domain.ChangeProject{Name: "Shop", Settings: w.settings()})
	case 1:
		key := fmt.Sprintf("key_%d", len(keys))
		w.commandProject(id, domain.IssueKey{KeyID: key, Hash: sha256.Sum256([]byte(key)), Scopes: domain.AllScopes()})
	case 2:
		if len(keys) > 0 {
			w.commandProject(id, domain.RevokeKey{KeyID: pick(w, keys...).ID})
		}
	default:
		w.endpoint(id)
	}
}

// endpoint adds, changes or removes a webhook endpoint of the project.
func (w *world) endpoint(project string) {
	w.tb.Helper()
	there := w.settled[project].Endpoints
	if len(there) == 0 || len(there) < 3 && w.intn(2) == 0 {
		id := fmt.Sprintf("we_%d", w.last())
		w.commandProject(project, domain.AddEndpoint{At: domain.InstantOf(w.now), EndpointID: id, URL: "https://merchant.example/hook", KeyVersion: 1})
		w.added[id] = w.last()
		return
	}
	id := pick(w, there...).ID
	if w.intn(2) == 0 {
		w.commandProject(project, domain.RemoveEndpoint{EndpointID: id})
		delete(w.added, id)
		return
	}
	w.commandProject(project, domain.ChangeEndpoint{EndpointID: id, URL: "https://merchant.example/other", Kinds: domain.Kinds()[:1+w.intn(3)]})
}

func (w *world) settings() domain.Settings {
	s := domain.DefaultSettings()
	s.Currencies = []domain.Currency{"RUB", "USD"}
	s.LifetimeSeconds = pick(w, 300, 3600, 86400)
	return s
}

var descriptions = []string{
	"", "order-1", "order-10", "order-11", "order-2", "заказ 1", "Заказ №12", "o", "\u00ff", "order-1\u00a0", "Orders: order, ORDER 1",
}

// wordsOf are the words of the descriptions.
var wordsOf = map[string][]string{
	"order-1": {"1", "order"}, "order-10": {"10", "order"}, "order-11": {"11", "order"}, "order-2": {"2", "order"},
	"заказ 1": {"1", "заказ"}, "Заказ №12": {"12", "заказ"}, "o": {"o"}, "\u00ff": {"\u00ff"}, "order-1\u00a0": {"1", "order"},
	"Orders: order, ORDER 1": {"1", "order", "orders"},
}

func (w *world) create() {
	w.tb.Helper()
	id, event := w.ids.Pair()
	project := pick(w, w.projects...)
	var description *string
	if n := w.intn(len(descriptions) + 2); n < len(descriptions) {
		description = &descriptions[n]
	}
	r := w.command(domain.Payment{Project: project, ID: id}, domain.CreatePayment{
		At: domain.IDTime(event), Amount: domain.Amount(pick(w, 1, 100, 100, 150000, 1+w.intn(500))), Currency: pick[domain.Currency](w, "RUB", "RUB", "USD"),
		Description: description, Payload: pick(w, nil, domain.JSON(`{"a":"<\u0041>","n":12345678901234567890}`)),
		Settings: w.settled[project].Settings, Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
	}, event)
	w.order = append(w.order, id)
	w.created[id] = r.Stored.Position
}

func (w *world) advance(p domain.Payment) {
	w.tb.Helper()
	event := w.ids.Next()
	signal := domain.Signal{
		Route: "sandbox", Reference: fmt.Sprint(p.ID, w.intn(1<<30)), Amount: p.Amount, Currency: p.Currency, StartedAt: p.CreatedAt,
	}
	switch {
	case p.Status == domain.Created && w.intn(8) > 0:
		w.command(p, domain.AssignRoute{Table: domain.RoutingTable{
			{Route: "sandbox", Currency: "RUB", Min: 1, Max: domain.MaxAmount, Weight: 1},
			{Route: "sandbox", Currency: "USD", Min: 1, Max: domain.MaxAmount, Weight: 1},
		}, Draw: 0}, event)
	case p.Status == domain.Created || w.intn(12) == 0:
		w.command(p, domain.ExpirePayment{At: max(domain.InstantOf(w.now), p.ExpiryDue())}, event)
	case p.Status == domain.Paid && w.intn(3) > 0:
		if n := len(p.Refunds); n > 0 && p.Refunds[n-1].Status == domain.RefundPending {
			signal.Outcome, signal.RefundID = pick(w, domain.OutcomeSucceeded, domain.OutcomeFailed), &p.Refunds[n-1].ID
			w.command(p, domain.ApplySignal{Signal: signal}, event)
			return
		}
		refund, event := w.ids.Pair()
		w.command(p, domain.CreateRefund{At: domain.IDTime(event), RefundID: refund}, event)
	default:
		signal.Outcome = pick(w, domain.OutcomePaid, domain.OutcomePaid, domain.OutcomePaid, domain.OutcomeFailed)
		w.command(p, domain.ApplySignal{Signal: signal}, event)
	}
}

func (w *world) command(p domain.Payment, c domain.PaymentCommand, event domain.ID) eventstore.Result[domain.Payment] {
	w.tb.Helper()
	r, err := eventstore.Execute(w.tb.Context(), w.ledger(), eventstore.PaymentStream(p.Project, p.ID),
		domain.Payment{Project: p.Project, ID: p.ID}, c, eventstore.Order{EventID: event})
	if _, refused := err.(*domain.Refusal); refused { //nolint:errorlint // Execute answers it as it is
		return r
	}
	if err != nil {
		w.tb.Fatalf("%T: %v", c, err)
	}
	w.payments[p.ID] = r.State
	return r
}

func (w *world) commandProject(id string, c domain.ProjectCommand) {
	w.tb.Helper()
	r, err := eventstore.Execute(w.tb.Context(), w.ledger(), eventstore.ProjectStream(id),
		domain.Project{ID: id}, c, eventstore.Order{EventID: w.ids.Next()})
	if err != nil {
		w.tb.Fatalf("%T: %v", c, err)
	}
	w.settled[id] = r.State
}

func (w *world) steps(n int) *world {
	w.tb.Helper()
	for range n {
		w.step()
	}
	return w
}

func (w *world) last() eventstore.Position {
	w.tb.Helper()
	last, err := w.store.Last(w.tb.Context())
	if err != nil {
		w.tb.Fatal(err)
	}
	return last
}

// newestFirst lists the payments that keep allows, by falling id.
func (w *world) newestFirst(keep func(domain.Payment) bool) []domain.Payment {
	var out []domain.Payment
	for p := range maps.Values(w.payments) {
		if keep(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b domain.Payment) int { return b.ID.Compare(a.ID) })
	return out
}

// open opens an engine; the test closes it unless it did so before.
func open(tb testing.TB, c Config) *Engine {
	tb.Helper()
	e, err := Open(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = e.Close() })
	return e
}

// run lets an engine follow the log; the returned function ends that and
// answers what Run answered.
func run(tb testing.TB, e *Engine) (stop func() error) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	var once bool
	var err error
	stop = func() error {
		if !once {
			cancel()
			once, err = true, <-ended
		}
		return err
	}
	tb.Cleanup(func() { _ = stop() })
	return stop
}

// dump is what an engine holds.
func dump(tb testing.TB, e *Engine) string {
	tb.Helper()
	var b bytes.Buffer
	at, err := e.Dump(tb.Context(), &b)
	if err != nil {
		tb.Fatal(err)
	}
	if at != e.Position() {
		tb.Fatalf("dump at %d, want %d", at, e.Position())
	}
	return b.String()
}

// rebuilt is what the log leads to when it is folded anew.
func (w *world) rebuilt() string {
	w.tb.Helper()
	e := open(w.tb, w.config(w.tb.TempDir()))
	defer e.Close()
	return dump(w.tb, e)
}

// diff fails with the first line by which two dumps differ.
func diff(tb testing.TB, got, want string) {
	tb.Helper()
	if got == want {
		return
	}
	g, w := bytes.Split([]byte(got), []byte("\n")), bytes.Split([]byte(want), []byte("\n"))
	for i := range max(len(g), len(w)) {
		a, b := "", ""
		if i < len(g) {
			a = string(g[i])
		}
		if i < len(w) {
			b = string(w[i])
		}
		if cmp.Compare(a, b) != 0 {
			tb.Fatalf("line %d:\n got %s\nwant %s", i+1, a, b)
		}
	}
}
