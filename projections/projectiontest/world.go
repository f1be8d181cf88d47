// Package projectiontest grows a log by random commands, for the tests of the projections, and
// keeps the states that its events lead to.
package projectiontest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/projects"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/eventstore/memory"
)

// World is a log with the states its events lead to, grown by random commands.
type World struct {
	TB     testing.TB
	Store  *memory.Store
	Codec  *eventstore.Codec
	IDs    *domain.IDs
	LogID  domain.ID
	Now    time.Time
	Intn   func(n int) int
	Random *rand.ChaCha8

	Projects []string
	Payments map[domain.ID]domain.Payment
	Order    []domain.ID // of the payments, as they were created
	Created  map[domain.ID]eventstore.Position
	States   map[string]projects.Project
	Added    map[string]eventstore.Position // of the endpoints there are, by id
}

// New makes an empty world that draws its choices from intn.
func New(tb testing.TB, intn func(n int) int) *World {
	w := &World{
		TB: tb, Store: memory.New(), Codec: eventstore.NewCodec(), Intn: intn,
		Now:      time.UnixMilli(1_795_169_730_123),
		Random:   rand.NewChaCha8([32]byte{1}),
		Payments: make(map[domain.ID]domain.Payment),
		Created:  make(map[domain.ID]eventstore.Position),
		States:   make(map[string]projects.Project),
		Added:    make(map[string]eventstore.Position),
	}
	w.IDs = domain.NewIDs(func() time.Time { return w.Now }, w.Random, domain.ID{})
	w.LogID = w.IDs.Next()
	return w
}

// Seeded is a world whose choices depend on the seed alone.
func Seeded(tb testing.TB, seed uint64) *World {
	return New(tb, rand.New(rand.NewPCG(seed, seed)).IntN)
}

// Ledger is the log with its codec.
func (w *World) Ledger() eventstore.Ledger { return eventstore.Ledger{Store: w.Store, Codec: w.Codec} }

// Pick draws one of the values.
func Pick[T any](w *World, from ...T) T { return from[w.Intn(len(from))] }

// Step issues one random command.
func (w *World) Step() {
	w.TB.Helper()
	w.Now = w.Now.Add(Pick(w, 0, 0, time.Millisecond, time.Second, time.Minute, 9*time.Hour))
	if len(w.Projects) == 0 {
		w.Project()
		return
	}
	switch n := w.Intn(20); {
	case n == 0:
		w.Project()
	case n < 8 || len(w.Order) == 0:
		w.Create()
	default:
		p := w.Payments[w.Order[max(0, len(w.Order)-1-w.Intn(12))]]
		w.Advance(p)
	}
}

// Project registers a project, or changes one once there are three.
func (w *World) Project() {
	w.TB.Helper()
	if len(w.Projects) < 3 {
		id := fmt.Sprintf("prj_%d", len(w.Projects))
		w.Projects = append(w.Projects, id)
		w.CommandProject(id, projects.RegisterProject{Name: "Лавка " + id, Settings: w.Settings()})
		return
	}
	id := Pick(w, w.Projects...)
	switch keys := w.States[id].Keys; w.Intn(6) {
	case 0:
		w.CommandProject(id, projects.ChangeProject{Name: "Shop", Settings: w.Settings()})
	case 1:
		key := fmt.Sprintf("key_%d", len(keys))
		w.CommandProject(id, projects.IssueKey{KeyID: key, Hash: sha256.Sum256([]byte(key)), Scopes: projects.AllScopes()})
	case 2:
		if len(keys) > 0 {
			w.CommandProject(id, projects.RevokeKey{KeyID: Pick(w, keys...).ID})
		}
	default:
		w.Endpoint(id)
	}
}

// Endpoint adds, changes or removes a webhook endpoint of the project.
func (w *World) Endpoint(project string) {
	w.TB.Helper()
	endpoints := w.States[project].Endpoints
	if len(endpoints) == 0 || len(endpoints) < 3 && w.Intn(2) == 0 {
		id := fmt.Sprintf("we_%d", w.Last())
		w.CommandProject(project, projects.AddEndpoint{At: domain.InstantOf(w.Now), EndpointID: id, URL: "https://merchant.example/hook", KeyVersion: 1})
		w.Added[id] = w.Last()
		return
	}
	id := Pick(w, endpoints...).ID
	if w.Intn(2) == 0 {
		w.CommandProject(project, projects.RemoveEndpoint{EndpointID: id})
		delete(w.Added, id)
		return
	}
	w.CommandProject(project, projects.ChangeEndpoint{EndpointID: id, URL: "https://merchant.example/other", Kinds: domain.Kinds()[:1+w.Intn(3)]})
}

// Settings draws a project's settings.
func (w *World) Settings() domain.Settings {
	s := domain.DefaultSettings()
	s.Currencies = []domain.Currency{"RUB", "USD"}
	s.LifetimeSeconds = Pick(w, 300, 3600, 86400)
	s.ShopURL = Pick(w, "", "https://shop.example/")
	s.TimeZone = Pick(w, "", "UTC", "Asia/Kathmandu")
	return s
}

// Descriptions are those that payments have.
func Descriptions() []string {
	return []string{
		"", "order-1", "order-10", "order-11", "order-2", "заказ 1", "Заказ №12", "o", "\u00ff", "order-1\u00a0", "Orders: order, ORDER 1",
	}
}

// TermsOf are the search terms of the descriptions.
func TermsOf() map[string][]string {
	return map[string][]string{
		"order-1": {"1", "order"}, "order-10": {"10", "order"}, "order-11": {"11", "order"}, "order-2": {"2", "order"},
		"заказ 1": {"1", "заказ"}, "Заказ №12": {"12", "заказ"}, "o": {"o"}, "\u00ff": {"\u00ff"}, "order-1\u00a0": {"1", "order"},
		"Orders: order, ORDER 1": {"1", "order", "orders"},
	}
}

// Create creates a payment.
func (w *World) Create() {
	w.TB.Helper()
	id, event := w.IDs.Pair()
	project := Pick(w, w.Projects...)
	var description *string
	all := Descriptions()
	if n := w.Intn(len(all) + 2); n < len(all) {
		description = &all[n]
	}
	r := w.Command(domain.Payment{Project: project, ID: id}, domain.CreatePayment{
		At: domain.IDTime(event), Amount: domain.Amount(Pick(w, 1, 100, 100, 150000, 1+w.Intn(500))), Currency: Pick[domain.Currency](w, "RUB", "RUB", "USD"),
		Description: description, Payload: Pick(w, nil, domain.JSON(`{"a":"<\u0041>","n":12345678901234567890}`)),
		Settings: w.States[project].Settings, Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
	}, event)
	w.Order = append(w.Order, id)
	w.Created[id] = r.Stored.Position
}

func sandboxes() domain.AssignRoute {
	return domain.AssignRoute{Table: domain.RoutingTable{
		{Route: "sandbox", Currency: "RUB", Min: 1, Max: domain.MaxAmount, Weight: 1},
		{Route: "sandbox", Currency: "USD", Min: 1, Max: domain.MaxAmount, Weight: 1},
	}}
}

// GiveBack takes a new payment through a refund that comes back, and a dispute.
func (w *World) GiveBack() {
	w.TB.Helper()
	w.Create()
	id, refund := w.Order[len(w.Order)-1], w.IDs.Next()
	says := func(o domain.Outcome, refund *domain.ID) domain.ApplySignal {
		p := w.Payments[id]
		return domain.ApplySignal{Signal: domain.Signal{
			Route: "sandbox", Outcome: o, Reference: fmt.Sprint(id, o), RefundID: refund, Amount: p.Amount, Currency: p.Currency, StartedAt: p.CreatedAt,
		}}
	}
	for _, command := range []domain.PaymentCommand{
		sandboxes(), says(domain.OutcomePaid, nil),
		domain.CreateRefund{At: domain.IDTime(refund), RefundID: refund},
		says(domain.OutcomeSucceeded, &refund), says(domain.OutcomeReturned, &refund), says(domain.OutcomeDisputed, nil),
	} {
		w.Command(w.Payments[id], command, w.IDs.Next())
	}
}

// Report records a settlement report of the sandbox: a line that settles each payment of the last
// project, one that is matched later with the first payment, and one that fits nothing, which is
// then written off.
func (w *World) Report() {
	w.TB.Helper()
	const route = "sandbox"
	report, paidBy := fmt.Sprint("r", w.Last()), settlement.ByMerchant
	line := settlement.Line{Kind: settlement.KindPayment, Currency: "RUB", SettledOn: "2026-11-20", Reference: "unheard of"}
	project := w.Payments[w.Order[len(w.Order)-1]].Project
	lines := map[string][]settlement.Text{}
	var all settlement.Summary
	add := func(project string, e settlement.Entry) {
		e.Number = all.Lines + 1
		e.Fee, e.Net = domain.SumOf(1), e.Gross.Add(domain.SumOf(-1))
		all = all.Add(e.Line)
		lines[project] = append(lines[project], e.Text())
	}
	for _, id := range w.Order {
		p := w.Payments[id]
		e := settlement.Entry{Line: line}
		e.PaymentID, e.Reference, e.Gross, e.Currency = id.String(), report+id.String(), domain.SumOf(p.Amount), p.Currency
		if e.Result = settlement.Judge(route, e.Line, p, nil); p.Project == project && e.Result == settlement.Settled {
			add(project, e)
		}
	}
	line.Gross = domain.SumOf(100)
	for range 2 {
		add(eventstore.KindInstallation, settlement.Entry{Line: line, Result: settlement.UnknownReference})
	}
	onReports := func(c settlement.ReportsCommand) {
		execute(w, eventstore.ReportsStream(route), settlement.Reports{Route: route}, c)
	}
	onBook := func(project string, c settlement.BookCommand) {
		execute(w, eventstore.BookStream(project, settlement.ID(route, report)), settlement.Book{Project: project, Route: route, Report: report}, c)
	}
	onReports(settlement.OpenReport{At: domain.InstantOf(w.Now), Report: settlement.Report{
		Route: route, Report: report, SHA256: sha256.Sum256([]byte(report)), FeesPaidBy: paidBy, Summary: all,
	}})
	for _, of := range slices.Sorted(maps.Keys(lines)) {
		onBook(of, settlement.RecordLines{FeesPaidBy: paidBy, Lines: lines[of]})
	}
	first := w.Payments[w.Order[0]]
	onBook(eventstore.KindInstallation, settlement.ResolveLine{
		Number: all.Lines - 1, To: settlement.Matched, Payment: first.ID.String(), Project: first.Project, Settles: line.Gross, Currency: line.Currency, FeesPaidBy: paidBy,
	})
	onReports(settlement.CloseReport{Report: report, Recorded: all})
	onBook(eventstore.KindInstallation, settlement.ResolveLine{Number: all.Lines, To: settlement.WriteOff, Reason: "x"})
}

func execute[S eventstore.Aggregate[S, C], C any](w *World, s eventstore.Stream, start S, c C) {
	w.TB.Helper()
	if _, err := eventstore.Execute(w.TB.Context(), w.Ledger(), s, start, c, eventstore.Order{EventID: w.IDs.Next()}); err != nil {
		w.TB.Fatalf("%T: %v", c, err)
	}
}

// Advance issues a command that changes the payment, or is refused.
func (w *World) Advance(p domain.Payment) {
	w.TB.Helper()
	event := w.IDs.Next()
	signal := domain.Signal{
		Route: "sandbox", Reference: fmt.Sprint("for ", event), Amount: p.Amount, Currency: p.Currency, StartedAt: p.CreatedAt,
	}
	switch {
	case p.Status == domain.Created && w.Intn(8) > 0:
		w.Command(p, sandboxes(), event)
	case p.Status == domain.Created || w.Intn(12) == 0:
		w.Command(p, domain.ExpirePayment{At: max(domain.InstantOf(w.Now), p.ExpiryDue())}, event)
	case p.Status == domain.Paid && p.PaidReference != "" && len(p.ProviderRefunds) < 3 && w.Intn(8) == 0:
		w.Command(p, domain.RecordProviderRefund{ProviderRefund: domain.ProviderRefund{
			Reference: p.PaidReference, RefundReference: fmt.Sprint("by hand ", len(p.ProviderRefunds)),
			Amount: 1 + domain.Amount(w.Intn(int(p.Amount))), Currency: p.Currency,
		}}, event)
	case p.Status == domain.Paid && w.Intn(8) == 0:
		signal.Outcome, signal.Reference = domain.OutcomeDisputed, fmt.Sprint("dispute ", w.Intn(3))
		if d, known := p.Dispute(signal.Reference); known && d.Status == domain.DisputeOpen || w.Intn(8) == 0 {
			signal.Outcome = Pick(w, domain.OutcomeDisputeWon, domain.OutcomeDisputeLost)
		}
		w.Command(p, domain.ApplySignal{Signal: signal}, event)
	case p.Status == domain.Paid && w.Intn(3) > 0:
		if n := len(p.Refunds); n > 0 && p.Refunds[n-1].Holds() && (p.Refunds[n-1].Status == domain.RefundPending || w.Intn(3) == 0) {
			signal.Outcome, signal.RefundID = Pick(w, domain.OutcomeSucceeded, domain.OutcomeFailed), &p.Refunds[n-1].ID
			if p.Refunds[n-1].Status == domain.RefundSucceeded {
				signal.Outcome = domain.OutcomeReturned
			}
			w.Command(p, domain.ApplySignal{Signal: signal}, event)
			return
		}
		refund, event := w.IDs.Pair()
		w.Command(p, domain.CreateRefund{At: domain.IDTime(event), RefundID: refund}, event)
	case p.Status == domain.AwaitingPayment && w.Intn(3) > 0:
		w.attempt(p, signal, event)
	case len(p.Late) > 0 && len(p.Returns) == 0 && w.Intn(2) == 0:
		back, event := w.IDs.Pair()
		w.Command(p, domain.CreateReturn{At: domain.IDTime(event), ReturnID: back, Reference: p.Late[0].Reference}, event)
	default:
		signal.Outcome = Pick(w, domain.OutcomePaid, domain.OutcomePaid, domain.OutcomePaid, domain.OutcomeFailed)
		w.Command(p, domain.ApplySignal{Signal: signal}, event)
	}
}

// attempt begins an attempt, or continues the one that is open.
func (w *World) attempt(p domain.Payment, paid domain.Signal, event domain.ID) {
	w.TB.Helper()
	a, open := p.OpenAttempt()
	paid.Outcome, paid.Reference = domain.OutcomePaid, a.Reference
	switch {
	case !open:
		w.Command(p, domain.BeginAttempt{At: min(domain.IDTime(event), p.ExpiresAt-1), Language: "ru", Merchant: "Shop"}, event)
	case w.Intn(4) == 0:
		w.Command(p, domain.FailAttempt{Number: a.Number, Reason: "card_declined"}, event)
	case a.Reference == "":
		w.Command(p, domain.OfferAttempt{Number: a.Number, Reference: fmt.Sprint("try ", p.ID, a.Number)}, event)
	default:
		w.Command(p, domain.ApplySignal{Signal: paid}, event)
	}
}

// Command executes a command on a payment and keeps its state.
func (w *World) Command(p domain.Payment, c domain.PaymentCommand, event domain.ID) eventstore.Result[domain.Payment] {
	w.TB.Helper()
	r, err := eventstore.Execute(w.TB.Context(), w.Ledger(), eventstore.PaymentStream(p.Project, p.ID),
		domain.Payment{Project: p.Project, ID: p.ID}, c, eventstore.Order{EventID: event})
	switch err.(type) { //nolint:errorlint // Execute answers it as it is
	case *domain.Refusal, *domain.AttemptError:
		return r
	}
	if err != nil {
		w.TB.Fatalf("%T: %v", c, err)
	}
	w.Payments[p.ID] = r.State
	return r
}

// CommandProject executes a command on a project and keeps its state.
func (w *World) CommandProject(id string, c projects.ProjectCommand) {
	w.TB.Helper()
	r, err := eventstore.Execute(w.TB.Context(), w.Ledger(), eventstore.ProjectStream(id),
		projects.Project{ID: id}, c, eventstore.Order{EventID: w.IDs.Next()})
	if err != nil {
		w.TB.Fatalf("%T: %v", c, err)
	}
	w.States[id] = r.State
}

// Steps issues n random commands.
func (w *World) Steps(n int) *World {
	w.TB.Helper()
	for range n {
		w.Step()
	}
	return w
}

// Deliver records that a sender of webhooks began an attempt for each endpoint and some
// payment, and how others ended. What does not follow from the log changes nothing.
func (w *World) Deliver() {
	w.TB.Helper()
	var last eventstore.Stored
	for r, err := range w.Store.Load(w.TB.Context(), eventstore.DeliveriesStream()) {
		if err != nil {
			w.TB.Fatal(err)
		}
		last = r
	}
	n := deliveries.Noted{At: domain.InstantOf(w.Now), Begins: last.Position == 0 || w.Intn(4) == 0}
	if last.Position == 0 {
		n.Base = uint64(w.Last())
	}
	for _, id := range slices.Sorted(maps.Keys(w.Added)) {
		n.Endpoints = append(n.Endpoints, id)
		if len(w.Order) == 0 {
			continue
		}
		e := deliveries.Entry{Endpoint: len(n.Endpoints) - 1, Payment: Pick(w, w.Order...), Sequence: uint64(1 + w.Intn(3)), What: deliveries.Begun}
		n.Entries = append(n.Entries, e.Text())
		if e.What = Pick(w, deliveries.Delivered, deliveries.Failed, deliveries.GivenUp, deliveries.Begun); e.What == deliveries.Failed {
			e.Class, e.Wait, e.Pause = "timeout", 5000, int64(w.Intn(2))*30_000
		}
		n.Entries = append(n.Entries, e.Text())
	}
	c, err := w.Ledger().Commit(eventstore.DeliveriesStream(), last, n, eventstore.Order{EventID: w.IDs.Next()})
	if err == nil {
		_, err = eventstore.AppendOne(w.TB.Context(), w.Store, c)
	}
	if err != nil {
		w.TB.Fatal(err)
	}
}

// Last is the log's last position.
func (w *World) Last() eventstore.Position {
	w.TB.Helper()
	last, err := w.Store.Last(w.TB.Context())
	if err != nil {
		w.TB.Fatal(err)
	}
	return last
}

// NewestFirst lists the payments that keep allows, by falling id.
func (w *World) NewestFirst(keep func(domain.Payment) bool) []domain.Payment {
	var out []domain.Payment
	for p := range maps.Values(w.Payments) {
		if keep(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b domain.Payment) int { return b.ID.Compare(a.ID) })
	return out
}
