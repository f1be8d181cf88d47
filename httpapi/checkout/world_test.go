package checkout

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

const (
	projectID     = "prj_teashop"
	secretText    = "order-1042 for Ivanova"
	secretPayload = `{"phone":"+79990000000"}`
)

// world is a ledger in memory with one project, seen through the interfaces of
// the page. Only tests move its clock.
type world struct {
	t      testing.TB
	ledger eventstore.Ledger
	ids    *domain.IDs
	links  *Links

	mu      sync.Mutex
	clock   time.Time
	broken  error // what the views answer
	lost    error // what the sandbox answers after it has signalled
	signals []string
	logged  strings.Builder
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, links: newTestLinks(t), clock: time.Date(2026, 11, 20, 10, 15, 0, 0, time.UTC),
		ledger: eventstore.Ledger{Store: memory.New(), Codec: eventstore.NewCodec()},
	}
	w.ids = domain.NewIDs(w.now, rand.Reader, domain.ID{})
	t.Cleanup(func() {
		if err := w.ledger.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	w.project(projects.RegisterProject{Name: "Чайная лавка", Settings: domain.DefaultSettings()})
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

func (w *world) project(c projects.ProjectCommand) {
	w.t.Helper()
	_, err := eventstore.Execute(context.Background(), w.ledger, eventstore.ProjectStream(projectID),
		projects.Project{ID: projectID}, c, eventstore.Order{EventID: w.ids.Next()})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) execute(id domain.ID, c domain.PaymentCommand) (eventstore.Result[domain.Payment], error) {
	return eventstore.Execute(context.Background(), w.ledger, eventstore.PaymentStream(projectID, id),
		domain.Payment{Project: projectID, ID: id}, c, eventstore.Order{EventID: w.ids.Next()})
}

func (w *world) do(id domain.ID, c domain.PaymentCommand) {
	w.t.Helper()
	if _, err := w.execute(id, c); err != nil {
		w.t.Fatal(err)
	}
}

// create opens a payment of 1500.00 RUB that lives an hour, in any status.
func (w *world) create(status domain.PaymentStatus) domain.ID {
	w.t.Helper()
	id := w.ids.Next()
	text := secretText
	settings := domain.DefaultSettings()
	settings.Currencies = append(settings.Currencies, "USD")
	w.do(id, domain.CreatePayment{
		At: domain.IDTime(id), Amount: 150000, Currency: domain.DefaultCurrency, Description: &text,
		Payload: domain.JSON(secretPayload), Settings: settings,
		Link: domain.Link{Base: "https://pay.example.com", KeyVersion: w.links.Current(), Render: 1},
	})
	if status != domain.Created {
		w.route(id)
	}
	switch status {
	case domain.Paid:
		w.provider(id, domain.OutcomePaid)
	case domain.Failed:
		w.provider(id, domain.OutcomeFailed)
	case domain.Expired:
		w.provider(id, domain.OutcomeExpired)
	}
	return id
}

func (w *world) route(id domain.ID) {
	w.t.Helper()
	w.do(id, domain.AssignRoute{Table: domain.RoutingTable{{
		Route: "bank-77", Currency: domain.DefaultCurrency, Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1,
	}}})
}

// provider reports an outcome that was reached without the page.
func (w *world) provider(id domain.ID, o domain.Outcome) {
	w.t.Helper()
	p, _, err := w.Payment(context.Background(), id)
	if err == nil {
		_, err = w.SignalPayment(context.Background(), p, o, "provider-"+id.String())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) breakViews(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = err
}

// Payment and Project are the page's Views.
func (w *world) Payment(ctx context.Context, id domain.ID) (domain.Payment, bool, error) {
	w.mu.Lock()
	err := w.broken
	w.mu.Unlock()
	if err != nil {
		return domain.Payment{}, false, err
	}
	start := domain.Payment{Project: projectID, ID: id}
	p, _, err := eventstore.Fold(ctx, w.ledger, eventstore.PaymentStream(projectID, id), start)
	return p, p.Status != "", err
}

func (w *world) Project(ctx context.Context, id string) (projects.Project, bool, error) {
	p, _, err := eventstore.Fold(ctx, w.ledger, eventstore.ProjectStream(id), projects.Project{ID: id})
	return p, p.Name != "", err
}

// SignalPayment makes the world the page's Sandbox, with the real rules.
func (w *world) SignalPayment(_ context.Context, p domain.Payment, o domain.Outcome, reference string) (domain.SignalReply, error) {
	w.mu.Lock()
	w.signals = append(w.signals, reference)
	lost := w.lost
	w.mu.Unlock()
	r, err := w.execute(p.ID, domain.ApplySignal{Signal: domain.Signal{
		Route: p.Route, Outcome: o, Reference: reference, Amount: p.Amount, Currency: p.Currency,
		StartedAt: domain.InstantOf(w.now()),
	}})
	switch {
	case err != nil:
		return domain.SignalReply{}, err
	case lost != nil:
		return domain.SignalReply{}, lost
	}
	switch e := r.Event.(type) {
	case nil:
		return domain.SignalReply{Result: domain.SignalUnchanged}, nil
	case domain.PaymentSignalRefused:
		return domain.SignalReply{Result: domain.SignalRefused, Reason: e.Reason}, nil
	case domain.PaymentLateFunds:
		return domain.SignalReply{Result: domain.SignalLateFunds, Reason: e.Reason}, nil
	}
	return domain.SignalReply{Result: domain.SignalApplied}, nil
}

// events lists the types of a payment's events.
func (w *world) events(id domain.ID) []string {
	w.t.Helper()
	var types []string
	for r, err := range w.ledger.Store.Load(context.Background(), eventstore.PaymentStream(projectID, id)) {
		if err != nil {
			w.t.Fatal(err)
		}
		e, err := w.ledger.Codec.Decode(r)
		if err != nil {
			w.t.Fatal(err)
		}
		types = append(types, e.Type())
	}
	return types
}

// logWriter keeps what the page logs.
type logWriter struct{ w *world }

func (l logWriter) Write(b []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.logged.Write(b)
}

func (w *world) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logged.String()
}

func (w *world) handler(sandbox bool) served {
	w.t.Helper()
	c := Config{Views: w, Links: w.links, Now: w.now, PublicURL: "https://pay.example.com"}
	if sandbox {
		c.Sandbox = w
	}
	return w.serve(c)
}

// served is the page behind an edge, as the program has it.
type served struct {
	http.Handler
	*handler
}

func (w *world) serve(c Config) served {
	w.t.Helper()
	h, err := newHandler(c)
	if err != nil {
		w.t.Fatal(err)
	}
	explain := func(err error) (wire.Problem, bool) { // the program's own is of a package that imports this one
		return edge.Unfinished(), failureOf(err).status == http.StatusServiceUnavailable
	}
	e := edge.New(edge.Config{Now: w.now, Entropy: rand.Reader, PublicURL: c.PublicURL, Log: zerolog.New(logWriter{w}), Explain: explain})
	pages := edge.Pages("payPage", h.serve)
	return served{e.Wrap(func(x *edge.Exchange) { pages.ServeHTTP(x, x.Request) }), h}
}

func (w *world) path(id domain.ID) string { return w.links.URL("", w.links.Current(), id) }

// call sends one request; header names and values alternate.
func call(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "pay.example.com"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

func get(h http.Handler, target string, header ...string) *httptest.ResponseRecorder {
	return call(h, http.MethodGet, target, "", header...)
}

var formField = regexp.MustCompile(`<input type="hidden" name="form" value="([^"]*)">`)

// formToken reads the page as a customer's browser would.
func formToken(t testing.TB, h http.Handler, path string) string {
	t.Helper()
	m := formField.FindStringSubmatch(get(h, path).Body.String())
	if m == nil {
		t.Fatal("the page has no form")
	}
	return html.UnescapeString(m[1])
}

// send posts a form as a browser does from the page.
func send(h http.Handler, path, token, outcome string, header ...string) *httptest.ResponseRecorder {
	form := url.Values{"form": {token}, "outcome": {outcome}}
	all := append([]string{
		"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Origin", "null",
	}, header...)
	return call(h, http.MethodPost, path, form.Encode(), all...)
}

var errBroken = errors.New("the views are broken on purpose")

// page is a failing test's view of an answer.
func page(rec *httptest.ResponseRecorder) string {
	b, _ := io.ReadAll(rec.Body)
	return fmt.Sprintf("%d %v\n%s", rec.Code, rec.Header(), b)
}
