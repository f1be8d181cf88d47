package delivery

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/installation"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/memory"
)

// step is one thing that happens in a script.
type step struct {
	What  string
	Pause time.Duration // before it
	A, B  int           // which; the meaning depends on What
}

// whats lists what can happen, as often as it shall.
func whats() []string {
	var all []string
	for _, w := range []struct {
		what string
		n    int
	}{
		{"create", 6},
		{"advance", 22},
		{"fan out", 3},
		{"mode", 6},
		{"resend", 6},
		{"recover", 2},
		{"test", 1},
		{"enable", 3},
		{"disable", 1},
		{"change", 1},
		{"restart", 2},
		{"crash", 5},
		{"set clock", 2},
		{"lose views", 1},
		{"older views", 1},
		{"restored", 1},
	} {
		for range w.n {
			all = append(all, w.what)
		}
	}
	return all
}

func pauses() []time.Duration {
	return []time.Duration{
		0, 0, 0, 0, time.Millisecond, time.Second, 3 * time.Second, 6 * time.Second, 20 * time.Second, time.Minute,
		7 * time.Minute, 40 * time.Minute, 3 * time.Hour, 11 * time.Hour,
	}
}

// script makes n steps, the same for the same seed.
func script(seed uint64, n int) []step {
	src := rand.New(rand.NewPCG(seed, 1))
	steps := make([]step, n)
	for i := range steps {
		steps[i] = step{
			What: whats()[src.IntN(len(whats()))], Pause: pauses()[src.IntN(len(pauses()))], A: src.IntN(1000), B: src.IntN(1000),
		}
	}
	return steps
}

// play plays a script and answers what went wrong.
func play(t *testing.T, script []step, spoil func(*player) error) []string {
	return playWith(t, false, script, spoil)
}

func playWith(t *testing.T, shared bool, script []step, spoil func(*player) error) []string {
	var faults []string
	synctest.Test(t, func(t *testing.T) {
		p := &player{world: newWorld(t)}
		p.shared = shared
		for _, name := range []string{"a", "b", "c"} {
			p.endpoint(name)
		}
		p.endpoint("d", domain.FinalKinds()...)
		p.start()
		began := time.Now()
		for i, s := range script {
			time.Sleep(s.Pause)
			if spoil != nil {
				if err := spoil(p); err != nil {
					p.net.note("step %d: %v", i, err)
					break
				}
			}
			if err := p.step(s); err != nil {
				p.net.note("step %d, %+v: %v", i, s, err)
				break
			}
			if len(p.net.found()) > 0 {
				break
			}
		}
		if rest := 76*time.Hour - time.Since(began); rest > 0 {
			time.Sleep(rest)
		}
		if err := p.finish(); err != nil {
			p.net.note("at the end: %v", err)
		}
		err := p.end()
		for _, end := range p.former {
			err = errors.Join(err, end())
		}
		if err := errors.Join(err, p.close()); err != nil {
			p.net.note("at the end: %v", err)
		}
		faults = p.net.found()
	})
	return faults
}

type player struct {
	*world
	payments []domain.ID
	older    string         // a copy of the views' file from before the last orderly stop
	base     uint64         // what was sent up to there is unknown
	former   []func() error // end the nodes that sent before
	lossy    bool           // a crash loses what senders recorded last
}

func (p *player) pick(from []domain.ID, n int) (domain.ID, bool) {
	if len(from) == 0 {
		return domain.ID{}, false
	}
	// The latest are the busiest.
	return from[max(len(from)-1-n%5, 0)], true
}

func (p *player) step(s step) error {
	endpoints := p.state().Endpoints
	e := endpoints[s.A%len(endpoints)]
	ctx := context.Background()
	switch s.What {
	case "create":
		p.payments = append(p.payments, p.payment())
		return p.fanOut()
	case "advance":
		if id, ok := p.pick(p.payments, s.A); ok {
			p.advance(id, s.B)
		}
		if s.B%4 == 0 {
			return nil // the network hears of it later
		}
		return p.fanOut()
	case "fan out":
		return p.fanOut()
	case "mode":
		p.net.set(e.ID, modes()[s.B%len(modes())])
	case "enable":
		for _, e := range endpoints {
			p.project(projects.EnableEndpoint{EndpointID: e.ID})
		}
	case "disable":
		p.project(projects.DisableEndpoint{At: domain.InstantOf(p.now()), EndpointID: e.ID, Reason: projects.DisabledByRequest})
	case "change":
		var url string
		if s.B%2 == 0 {
			url = "https://10.1.2.3/hooks" // refused, without being called
		} else {
			url = "https://" + e.ID[len("we_"):] + ".example/hooks"
		}
		p.project(projects.ChangeEndpoint{EndpointID: e.ID, URL: url, Kinds: e.Kinds})
	case "resend":
		return p.resend(ctx, e, s)
	case "recover":
		_, err := p.lanes.RecoverSince(ctx, testProject, e.ID, domain.InstantOf(time.Now().Add(-time.Duration(s.B)*time.Minute)))
		return notRefused(err)
	case "test":
		_, err := p.lanes.Test(ctx, testProject, e.ID)
		return notRefused(err)
	case "set clock":
		p.setBack([]time.Duration{26 * time.Hour, time.Minute, -time.Minute, -3 * time.Hour}[s.B%4])
	case "restart":
		return p.restart()
	case "crash":
		if err := p.crash(); err != nil {
			return err
		}
		if p.lossy {
			if err := p.forget(); err != nil {
				return err
			}
		}
		p.start()
	case "hand over":
		return p.handOver()
	case "lose views":
		return p.anew(func() error {
			p.files++ // there is no such file
			return nil
		})
	case "older views":
		if p.older == "" {
			return p.restart()
		}
		older := p.older
		p.older = ""
		return p.anew(func() error { return os.Rename(older, p.path()) })
	case "restored":
		if err := p.end(); err != nil {
			return err
		}
		p.net.cut()
		r, err := eventstore.Execute(ctx, p.ledger, eventstore.InstallationStream(), installation.Installation{},
			installation.Command(installation.RestoreLog{RestoredAt: domain.InstantOf(p.now()), File: "copy.db"}), eventstore.Order{EventID: p.ids.Next()})
		if err != nil {
			return err
		}
		if r.Event != nil {
			p.base = uint64(r.Stored.Position)
		}
		p.start()
	}
	return nil
}

func notRefused(err error) error {
	if errors.As(err, new(*domain.Refusal)) {
		return nil
	}
	return err
}

// resend asks for an event; if it is not to be had, for the one offered.
func (p *player) resend(ctx context.Context, e projects.Endpoint, s step) error {
	id, ok := p.pick(p.payments, s.B)
	if !ok {
		return nil
	}
	all, err := p.list(domain.DeliveryFilter{Endpoint: e.ID, Payment: id})
	if err != nil || len(all) == 0 {
		return err
	}
	_, err = p.lanes.Resend(ctx, testProject, e.ID, all[s.B/5%len(all)].EventID)
	var refusal *domain.Refusal
	if errors.As(err, &refusal) && refusal.Code == domain.DeliverySupersededCode {
		offered := refusal.EventID
		_, err = p.lanes.Resend(ctx, testProject, e.ID, offered)
		// An answer 410 to an attempt under way may have disabled it meanwhile.
		disabled := errors.As(err, &refusal) && refusal.Code == domain.WebhookEndpointDisabledCode
		if err != nil && !disabled {
			return fmt.Errorf("resending event %s of %s, which was offered: %w", offered, e.ID, err)
		}
	}
	return notRefused(err)
}

func (p *player) start() {
	p.lanes = New(p.config())
	p.run()
}

// restart ends the sender and begins another one, and keeps a copy of the views.
func (p *player) restart() error {
	return p.anew(func() error {
		p.older = filepath.Join(p.dir, "older.db")
		content, err := os.ReadFile(p.path())
		if err != nil {
			return err
		}
		return os.WriteFile(p.older, content, 0o600)
	})
}

// anew goes on with other views, which have to be the same.
func (p *player) anew(between func() error) error {
	if err := p.end(); err != nil {
		return err
	}
	before, err := p.whole()
	if err == nil {
		err = p.unfollow()
	}
	if err == nil {
		err = between()
	}
	if err == nil {
		err = p.follow()
	}
	if err != nil {
		return err
	}
	p.lanes = New(p.config())
	after, err := p.whole()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(before, after, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("other views of the same log:\n%s", diff)
	}
	p.net.cut()
	p.run()
	return nil
}

// whole is all that the views know.
func (p *player) whole() (all map[string]any, err error) {
	rows := p.views.Deliveries()
	if err := rows.Fresh(context.Background()); err != nil {
		return nil, err
	}
	all = map[string]any{"state": rows.State(), "endpoints": rows.Endpoints()}
	for _, e := range p.state().Endpoints {
		found, _, err := rows.Page(context.Background(), e.ID, "", domain.ID{}, 1e6, 1e6)
		if err != nil {
			return nil, err
		}
		all["deliveries to "+e.ID] = found
		for _, id := range p.payments {
			l, known, err := rows.Lane(e.ID, id)
			if err != nil {
				return nil, err
			}
			if known {
				all["lane of "+id.String()+" to "+e.ID] = l
			}
		}
	}
	return all, nil
}

// TestForwardOnly plays scripts of 76 hours and more with hostile receivers,
// crashes, lost views, restored logs and clocks that are set: no lane's starts ever decrease
// or overlap, nothing intermediate is sent once something later is known, and
// everything ends delivered or listed.
func TestForwardOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("plays so much that the race detector itself may give up")
	}
	t.Parallel()
	// Without PAYLEDGER_LONG fewer scripts are played than rapid's default.
	if f := flag.Lookup("rapid.checks"); os.Getenv("PAYLEDGER_LONG") == "" && f.Value.String() == f.DefValue {
		if err := f.Value.Set("15"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		steps := script(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(10, 200).Draw(rt, "steps"))
		if faults := play(t, steps, nil); len(faults) > 0 {
			rt.Fatalf("%v\nafter %+v", faults, steps)
		}
	})
}

// TestEveryRuleIsNeeded plays scripts in which the state that keeps one rule is
// spoiled before each step: that has to show.
func TestEveryRuleIsNeeded(t *testing.T) {
	if os.Getenv("PAYLEDGER_LONG") == "" {
		t.Skip("it plays until a planted fault shows: run with PAYLEDGER_LONG=1")
	}
	t.Parallel()
	for _, rule := range []struct {
		name  string
		spoil func(*player) error
		fault string
	}{
		{"one request at a time", forgetFlying, "while another one was under way"},
		{"intermediate events give way", makeAllFinal, "was begun though"},
		{"what was sent is durable", loseRecords, "was begun after"},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(300) {
				for _, fault := range play(t, script(seed, 100), rule.spoil) {
					if strings.Contains(fault, rule.fault) {
						t.Logf("script %d: %s", seed, fault)
						return
					}
				}
			}
			t.Fatal("without this rule no script went wrong")
		})
	}
}

// forgetFlying makes lanes with an attempt under way look as if they had none.
func forgetFlying(p *player) error {
	s := p.sender()
	return s.writer.insist(context.Background(), func(x *tx) error {
		clear(x.underWay)
		for _, t := range s.all() {
			keys, err := p.views.Deliveries().Due(context.Background(), t.id, deliveries.DueKey{}, windowSize)
			if err != nil {
				return err
			}
			for _, k := range keys {
				t.offer(k)
			}
		}
		return nil
	})
}

// finals are rows in which all events that wait look like final ones.
type finals struct{ Rows }

func (f finals) Lane(endpoint string, payment domain.ID) (deliveries.Lane, bool, error) {
	l, known, err := f.Rows.Lane(endpoint, payment)
	for i := range l.Queue {
		l.Queue[i].Final = true
	}
	return l, known, err
}

// makeAllFinal makes intermediate events that wait look like final ones.
func makeAllFinal(p *player) error {
	p.sender().config.Rows = finals{p.views.Deliveries()}
	return nil
}

// loseRecords lets each crash lose what senders recorded last, as if it had not been synced.
func loseRecords(p *player) error {
	p.lossy = true
	return nil
}

// forget makes a log without the last eight records of senders, and views of it.
func (p *player) forget() error {
	if err := p.close(); err != nil {
		return err
	}
	ctx, from, to := context.Background(), p.store.Reopen(), memory.New()
	moved, last := map[eventstore.Position]eventstore.Position{}, map[eventstore.Stream]eventstore.Position{}
	keep := p.views.Deliveries().State().Sequence - 8
	for r, err := range from.Scan(ctx, 0, eventstore.Filter{}) {
		if err != nil {
			return err
		}
		if r.Stream == eventstore.DeliveriesStream() && int64(r.Sequence) > int64(keep) {
			continue
		}
		stored, err := eventstore.AppendOne(ctx, to, eventstore.Commit{
			ID: r.Commit, Record: eventstore.Record{Stream: r.Stream, Expect: moved[last[r.Stream]], Body: r.Body},
		})
		if err != nil {
			return err
		}
		last[r.Stream], moved[r.Position] = r.Position, stored.Position
	}
	p.store, p.ledger.Store = to, &disk{to, p.world}
	p.files++
	return errors.Join(from.Close(), p.follow())
}
