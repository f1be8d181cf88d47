package projections

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/projections/projectiontest"
	"payledger/projections/views"
)

// linesOf are the lines of a dump that belong to one table.
func linesOf(dump, view string) string {
	var b strings.Builder
	for line := range strings.Lines(dump) {
		if strings.HasPrefix(line, view+"\t") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestReplayEqualsLive checks each view on its own: fed as the events come,
// flushed at arbitrary points, closed and opened again at arbitrary points
// with or without a flush before, it equals the one that is rebuilt.
func TestReplayEqualsLive(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "n") })
		c := w.config(t.TempDir())
		e := open(t, c)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			for range rapid.IntRange(1, 5).Draw(rt, "events") {
				w.Step()
			}
			if rapid.IntRange(0, 9).Draw(rt, "wait") == 0 {
				w.Now = w.Now.Add(domain.KeepDeliveries / 2)
			}
			if rapid.IntRange(0, 2).Draw(rt, "deliver") == 0 {
				w.Deliver()
				if len(w.Order) > 0 {
					w.Report()
				}
			}
			feed(t, e)
			switch rapid.IntRange(0, 5).Draw(rt, "then") {
			case 0, 1:
				must(t, e.flush())
			case 2:
				must(t, e.flush())
				must(t, e.Close())
				e = open(t, c)
			case 3: // as after a crash
				must(t, e.Close())
				e = open(t, c)
			}
		}
		feed(t, e)
		live, replayed := dump(t, e), w.rebuilt()
		for _, name := range e.Tables() {
			seen[name] += len(linesOf(live, name))
			diff(t, linesOf(live, name), linesOf(replayed, name))
		}
		checkSizes(t, w, live)
		checkAll(t, w, e)
		must(t, e.Close())
	})
	for _, name := range newEngine(Config{}).Tables() {
		if drawsMany() && seen[name] == 0 {
			t.Errorf("table %s was never tried", name)
		}
	}
}

// TestForgettingIsTheSameWhateverWasFlushed: which deliveries are dropped, and how far the
// search for them came, follows from the log alone.
func TestForgettingIsTheSameWhateverWasFlushed(t *testing.T) {
	t.Parallel()
	for _, every := range []int{3, 10} {
		t.Run(fmt.Sprint("flushed at each ", every), func(t *testing.T) {
			t.Parallel()
			w := seeded(t, 7)
			for len(w.Projects) < 3 {
				w.Project()
			}
			for _, id := range w.Projects {
				w.Endpoint(id)
				w.CommandProject(id, projects.ChangeEndpoint{
					EndpointID: w.States[id].Endpoints[0].ID, URL: "https://merchant.example/hook", Kinds: domain.Kinds(),
				})
			}
			e := open(t, w.config(t.TempDir()))
			at := 0
			hours := func(n int) {
				for range n {
					w.Now = w.Now.Add(time.Hour)
					w.Create()
					w.Order = w.Order[len(w.Order)-1:] // so that what is delivered is not touched later
					w.Deliver()
					for r, err := range e.store.Scan(t.Context(), e.Position(), eventstore.Filter{}) {
						must(t, err)
						must(t, e.apply(r))
						if at++; at%every == 0 {
							must(t, e.flush())
						}
					}
				}
			}
			hours(200)
			w.Now = w.Now.Add(domain.KeepDeliveries - 100*time.Hour)
			for range 10 {
				hours(10)
				diff(t, dump(t, e), w.rebuilt())
			}
			if left := strings.Count(linesOf(dump(t, e), "deliveries"), "\n"); left == 300 {
				t.Error("no delivery was forgotten")
			}
		})
	}
}

// checkSizes makes sure that no view keeps rows that no longer belong to it: reads
// would pass it over, and the file would grow for ever.
func checkSizes(t *testing.T, w *world, dump string) {
	t.Helper()
	want := map[string]int{
		"payments": len(w.Payments), "projects": len(w.States), "translog": (int(w.Last()) + 7) / 8,
	}
	for _, name := range []string{ // of these the tests of package notifier/delivery know what is right
		"webhook_lanes", "webhook_due", "webhook_endpoints", "webhook_state", "deliveries", "deliveries_listed", "deliveries_pending",
	} {
		want[name] = strings.Count(linesOf(dump, name), "\n")
	}
	for _, p := range w.Payments {
		want["payments_by_project"]++
		want["payments_by_status"]++
		want["payments_by_refund"]++
		for _, view := range []string{"refunds", "refunds_by_project", "refunds_by_status"} {
			want[view] += len(p.Refunds)
		}
		if len(p.Disputes) > 0 {
			want["payments_disputed"]++
		}
		if p.Description != nil {
			want["payments_by_description"]++
			want["payments_by_term"] += len(projectiontest.TermsOf()[*p.Description])
		}
		if !p.Status.Final() {
			want["due"]++
		}
		if p.Status == domain.Created {
			want["unrouted"]++
		}
		if p.Uncollected() {
			want["uncollected"]++
		}
		if p.AwaitsOperator() {
			want["suspense"]++
		}
		want["references"] += len(references(p)) + len(referencesBack(p))
	}
	for project := range w.States {
		want["days"] += len(w.periods(project, day))
		want["quarters"] += len(w.periods(project, quarter))
		want["attempts"] += len(w.attempts(project))
	}
	accounts, times := make(map[string]bool), make(map[domain.Instant]bool)
	for _, l := range w.lines() {
		want["journal"]++
		if l.Account == domain.MerchantPayable && (l.Type == settlement.TypeReportLines || l.Type == settlement.TypeLineResolved) {
			want["fees"]++
		}
		accounts[l.Project+" "+string(l.Currency)+" "+string(l.Account)] = true
	}
	var newest domain.Instant
	settled, lists := make(map[string]bool), make(map[string]bool)
	for r, err := range w.Store.Scan(t.Context(), 0, eventstore.Filter{}) {
		must(t, err)
		newest = max(newest, domain.InstantOf(r.At))
		times[newest] = true
		lines := strings.Contains(string(r.Body), `"type":"report.lines"`)
		if r.Stream.Kind != eventstore.KindPayment && r.Stream.Kind != eventstore.KindDeliveries && !lines || eventstore.CauseOf(r.Body).Actor != "" {
			want["acts"]++
		}
		if r.Stream.Kind == eventstore.KindSettlement {
			countSettlements(t, w, r, want, settled, lists)
		}
	}
	want["balances"], want["times"] = len(accounts), len(times)
	for _, name := range newEngine(Config{}).Tables() {
		if got := strings.Count(linesOf(dump, name), "\n"); got != want[name] {
			t.Fatalf("table %s has %d keys, want %d", name, got, want[name])
		}
	}
}

// references are those under which the provider knows the payment.
func references(p domain.Payment) map[string]bool {
	all := map[string]bool{}
	for _, a := range p.Attempts {
		all[a.Reference] = true
	}
	for _, s := range p.Signals {
		if s.Route == p.Route && s.RefundID == nil && s.Outcome == domain.OutcomePaid {
			all[s.Reference] = true
		}
	}
	delete(all, "") // of an attempt that was not offered
	return all
}

// referencesBack are those of its refunds, returns and disputes, and of refunds by another hand.
func referencesBack(p domain.Payment) map[string]bool {
	all := map[string]bool{}
	for _, r := range p.ProviderRefunds {
		all[r.RefundReference] = true
	}
	for _, s := range p.Signals {
		if s.Route == p.Route && (s.RefundID != nil || s.Outcome.AboutDispute()) {
			all[s.Reference] = true
		}
	}
	return all
}

// countSettlements counts the rows that an event of a settlement report makes. lists has the reports
// of each project.
func countSettlements(t *testing.T, w *world, r eventstore.Stored, want map[string]int, settled, lists map[string]bool) {
	t.Helper()
	e, err := w.Codec.Decode(r)
	must(t, err)
	switch e := e.(type) {
	case settlement.ReportOpened:
		lists[eventstore.KindInstallation+settlement.ID(e.Report.Route, e.Report.Report)] = true
	case settlement.LineResolved:
		if e.Elsewhere {
			want["settlement_later"]++
			lists[e.Project+r.Stream.ID] = true
		}
		if e.To.Settles() {
			settled[e.Payment] = true
		}
	case settlement.ReportLines:
		want["settlement_lines"]++
		lists[r.Stream.Project+r.Stream.ID] = true
		for _, text := range e.Lines {
			line, err := text.Entry()
			must(t, err)
			if line.Result == settlement.Settled {
				settled[line.PaymentID] = true
			}
		}
	}
	want["settled"], want["settlements"], want["settlement_ids"] = len(settled), len(lists), len(lists)
}

// feed folds what the log holds beyond the engine, one event at a time.
func feed(tb testing.TB, e *Engine) {
	tb.Helper()
	for r, err := range e.store.Scan(tb.Context(), e.Position(), eventstore.Filter{}) {
		must(tb, err)
		must(tb, e.apply(r))
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// inPages compares a list of payments, in pages of one, with what it has to be.
func inPages[V any](
	t *testing.T, each func(context.Context, domain.ID, int, func(V, domain.ID) error) error, want []domain.ID, value func(V, domain.ID) bool,
) {
	t.Helper()
	slices.SortFunc(want, domain.ID.Compare)
	var got []domain.ID
	for after := (domain.ID{}); ; after = got[len(got)-1] {
		n := len(got)
		must(t, each(t.Context(), after, 1, func(v V, id domain.ID) error {
			if !value(v, id) {
				t.Errorf("%s is listed with %v", id, v)
			}
			got = append(got, id)
			return nil
		}))
		if len(got) == n {
			break
		}
	}
	diff(t, fmt.Sprint(got), fmt.Sprint(want))
}

// checkAll compares every read by id, and the indexes, with the world's own
// states.
func checkAll(t *testing.T, w *world, e *Engine) {
	t.Helper()
	ctx := t.Context()
	var oldest eventstore.Position
	var next domain.Instant
	var uncollected, suspended []domain.ID
	due := make(map[domain.ID]bool)
	var unrouted []eventstore.Position
	for id, want := range w.Payments {
		got, ok, err := e.Payment(ctx, id)
		must(t, err)
		if !ok || !reflect.DeepEqual(canonical(got), canonical(want)) {
			t.Fatalf("payment %s:\n got %+v\nwant %+v", id, got, want)
		}
		for _, r := range want.Refunds {
			p, got, ok, err := e.Refund(ctx, r.ID)
			must(t, err)
			if !ok || got != r || p.ID != id {
				t.Fatalf("refund %s: got %+v of %s, want %+v of %s", r.ID, got, p.ID, r, id)
			}
		}
		if want.Uncollected() {
			uncollected = append(uncollected, id)
		}
		if want.AwaitsOperator() {
			suspended = append(suspended, id)
		}
		for reference := range references(want) {
			found, ok, err := e.PaymentOfReference(ctx, "sandbox", reference)
			must(t, err)
			if !ok || found != id {
				t.Fatalf("reference %q: %s, want %s", reference, found, id)
			}
		}
		if at := w.Created[id]; want.Status == domain.Created {
			unrouted = append(unrouted, at)
			if oldest == 0 || at < oldest {
				oldest = at
			}
		}
		if !want.Status.Final() {
			due[id] = true
			if next == 0 || want.ExpiryDue() < next {
				next = want.ExpiryDue()
			}
		}
	}
	if _, ok, err := e.PaymentOfReference(ctx, "sandbox", "try"); ok || err != nil {
		t.Fatalf("an unknown reference: %v, %v", ok, err)
	}
	inPages(t, e.EachUncollected, uncollected, func(o domain.Outstanding, id domain.ID) bool { return o == w.Payments[id].Outstanding() })
	inPages(t, e.EachInSuspense, suspended, func(project string, id domain.ID) bool { return project == w.Payments[id].Project })
	got, ok, err := e.OldestUnrouted(ctx)
	must(t, err)
	if got != oldest || ok != (oldest != 0) {
		t.Fatalf("oldest unrouted: got %d, want %d", got, oldest)
	}
	slices.Sort(unrouted)
	var listed []eventstore.Position
	for more := true; more; { // in pages of 2
		before := len(listed)
		must(t, e.EachUnrouted(ctx, append(listed, 0)[max(before-1, 0)], 2, func(at eventstore.Position, project string, id domain.ID) error {
			listed = append(listed, at)
			if p := w.Payments[id]; p.Project != project || p.Status != domain.Created {
				t.Errorf("position %d: %s of %s is %s", at, id, project, p.Status)
			}
			return nil
		}))
		more = len(listed) > before
	}
	if !slices.Equal(listed, unrouted) {
		t.Fatalf("unrouted: got %v, want %v", listed, unrouted)
	}
	at, ok, err := e.NextDue(ctx)
	must(t, err)
	if at != next || ok != (next != 0) {
		t.Fatalf("next due: got %v, want %v", at, next)
	}
	var last domain.Instant
	must(t, e.EachDue(ctx, 1<<46, 1<<20, func(project string, id domain.ID) error {
		p := w.Payments[id]
		if !due[id] || p.Project != project || p.ExpiryDue() < last {
			t.Fatalf("due: %s of %s at %v after %v", id, project, p.ExpiryDue(), last)
		}
		last = p.ExpiryDue()
		delete(due, id)
		return nil
	}))
	if len(due) > 0 {
		t.Fatalf("never due: %v", due)
	}
	projects, err := e.Projects(ctx)
	must(t, err)
	if len(projects) != len(w.States) {
		t.Fatalf("%d projects, want %d", len(projects), len(w.States))
	}
	for _, p := range projects {
		one, ok, err := e.Project(ctx, p.ID)
		must(t, err)
		want := w.States[p.ID]
		if len(p.Endpoints) == 0 && len(want.Endpoints) == 0 {
			p.Endpoints, one.Endpoints, want.Endpoints = nil, nil, nil
		}
		if !ok || !reflect.DeepEqual(one, p) || !reflect.DeepEqual(p, want) {
			t.Fatalf("project %s: got %+v and %+v, want %+v", p.ID, p, one, want)
		}
	}
}

// canonical makes empty lists equal.
func canonical(p domain.Payment) domain.Payment {
	if len(p.Refunds) == 0 {
		p.Refunds = nil
	}
	if len(p.Signals) == 0 {
		p.Signals = nil
	}
	return p
}

func TestUnknownIDs(t *testing.T) {
	t.Parallel()
	w := seeded(t, 1).steps(20)
	e := open(t, w.config(t.TempDir()))
	if _, ok, err := e.Payment(t.Context(), w.IDs.Next()); ok || err != nil {
		t.Errorf("payment: %v, %v", ok, err)
	}
	if _, _, ok, err := e.Refund(t.Context(), w.IDs.Next()); ok || err != nil {
		t.Errorf("refund: %v, %v", ok, err)
	}
	if _, ok, err := e.Project(t.Context(), "prj_x"); ok || err != nil {
		t.Errorf("project: %v, %v", ok, err)
	}
}

func TestDueUpToAnInstant(t *testing.T) {
	t.Parallel()
	w := seeded(t, 2).steps(200)
	e := open(t, w.config(t.TempDir()))
	first, ok, err := e.NextDue(t.Context())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	count := func(before domain.Instant, limit int) (n int) {
		must(t, e.EachDue(t.Context(), before, limit, func(string, domain.ID) error { n++; return nil }))
		return n
	}
	if n := count(first-1, 100); n != 0 {
		t.Errorf("%d are due before the first", n)
	}
	if count(first, 100) == 0 {
		t.Error("the first is not due at its instant")
	}
	if n := count(1<<46, 3); n != 3 {
		t.Errorf("limit 3: got %d", n)
	}
	stop := errors.New("stop")
	if err := e.EachDue(t.Context(), 1<<46, 9, func(string, domain.ID) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("fn's error: got %v", err)
	}
}

func TestRunFollowsAndFlushesAtItsEnd(t *testing.T) {
	t.Parallel()
	w := seeded(t, 3)
	c := w.config(t.TempDir())
	e := open(t, c)
	stop := run(t, e)
	w.Steps(100)
	checkAll(t, w, e)
	if err := stop(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	if e.saved.position != w.Last() {
		t.Errorf("saved up to %d, want %d", e.saved.position, w.Last())
	}
	if _, _, err := e.Payment(t.Context(), w.Order[0]); err != nil {
		t.Errorf("read after Run: %v", err)
	}
	w.Step()
	list := func() error {
		_, err := e.Payments(t.Context(), "prj_0", views.PaymentQuery{Limit: 9})
		return err
	}
	if err := list(); w.Last() > e.Position() && !errors.Is(err, ErrStopped) {
		t.Errorf("stale read after Run: got %v, want ErrStopped", err)
	}
	must(t, e.Close())
	if err := list(); err == nil {
		t.Error("read after Close: no error")
	}
}

// TestReadsWaitForTheirOwn reads while the views are behind: a read of one
// payment or one project waits for its events and for nobody else's.
func TestReadsWaitForTheirOwn(t *testing.T) {
	t.Parallel()
	w := seeded(t, 6)
	e := open(t, w.config(t.TempDir()))
	w.Project()
	w.Create()
	w.Create()
	feed(t, e)
	changed, other := w.Order[0], w.Order[1]
	project := w.Payments[changed].Project
	w.Command(w.Payments[changed], domain.ExpirePayment{At: w.Payments[changed].ExpiryDue()}, w.IDs.Next())

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := e.Payment(ctx, changed); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the payment whose event is to be followed: %v, want it to wait", err)
	}
	if _, ok, err := e.Payment(t.Context(), other); !ok || err != nil {
		t.Errorf("another payment: %v, %v", ok, err)
	}
	if _, ok, err := e.Project(t.Context(), project); !ok || err != nil {
		t.Errorf("its project: %v, %v", ok, err)
	}
	feed(t, e)
	if p, ok, err := e.Payment(t.Context(), changed); !ok || err != nil || p.Status != domain.Expired {
		t.Errorf("the payment afterwards: %v, %v, %v", p.Status, ok, err)
	}

	w.CommandProject(project, projects.DisableProject{})
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := e.Project(ctx, project); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the project whose event is to be followed: %v, want it to wait", err)
	}
	feed(t, e)
	if p, ok, err := e.Project(t.Context(), project); !ok || err != nil || !p.Disabled {
		t.Errorf("the project afterwards: %v, %v, %v", p.Disabled, ok, err)
	}
}

func TestWaitHonoursItsContext(t *testing.T) {
	t.Parallel()
	w := seeded(t, 4).steps(10)
	e := open(t, w.config(t.TempDir()))
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() { waiting <- e.Wait(ctx, w.Last()+1) }()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(e.waiting.all) != 0 || e.waiting.lowest.Load() != 0 {
		t.Error("a waiter that has left is still listed")
	}
}

func TestDamagedRecordStopsTheEngine(t *testing.T) {
	t.Parallel()
	w := seeded(t, 5).steps(30)
	c := w.config(t.TempDir())
	e := open(t, c)
	good := w.Last()
	_, err := eventstore.AppendOne(t.Context(), w.Store, eventstore.Commit{ID: w.IDs.Next(), Record: eventstore.Record{
		Stream: eventstore.PaymentStream("prj_0", w.IDs.Next()), Body: []byte(`{"type":"payment.created"}`),
	}})
	must(t, err)
	ended := make(chan error)
	go func() { ended <- e.Run(t.Context()) }()
	var corrupt *eventstore.CorruptError
	if err := <-ended; !errors.As(err, &corrupt) || corrupt.Position != good+1 {
		t.Fatalf("Run: got %v, want a *CorruptError at %d", err, good+1)
	}
	if err := e.Wait(t.Context(), good+1); !errors.As(err, &corrupt) {
		t.Errorf("Wait: got %v", err)
	}
	if _, _, err := e.Payment(t.Context(), w.Order[0]); !errors.As(err, &corrupt) {
		t.Errorf("Payment: got %v", err)
	}
	must(t, e.Close())
	if _, err := Open(t.Context(), c); !errors.As(err, &corrupt) {
		t.Errorf("Open: got %v", err)
	}
	must(t, os.Remove(c.Path))
	if _, err := Open(t.Context(), c); !errors.As(err, &corrupt) {
		t.Errorf("rebuilding: got %v", err)
	}
	if _, err := os.Stat(c.Path + ".rebuild"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unfinished rebuild was left: %v", err)
	}
}
