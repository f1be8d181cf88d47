package delivery

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/delivery/store"
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
		{"lose file", 1},
		{"older file", 1},
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
	var faults []string
	synctest.Test(t, func(t *testing.T) {
		p := &player{world: newWorld(t)}
		for _, name := range []string{"a", "b", "c"} {
			p.endpoint(name)
		}
		p.endpoint("d", domain.FinalKinds()...)
		p.start(t)
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
		if err := p.end(); err != nil {
			p.net.note("at the end: %v", err)
		}
		faults = p.net.found()
	})
	return faults
}

type player struct {
	*world
	payments []domain.ID
	older    string              // a copy of the file from before the last orderly stop
	base     eventstore.Position // of the lane file
	unsynced string              // a copy of the file that is open now; see keepOldCopy
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
			return nil // the fan-out lags
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
		if p.unsynced != "" {
			p.path = p.unsynced
		}
		p.older = ""
		return p.again()
	case "lose file":
		if err := p.end(); err != nil {
			return err
		}
		if err := os.Remove(p.path); err != nil {
			return err
		}
		return p.fresh()
	case "older file":
		if p.older == "" {
			return p.restart()
		}
		if err := p.end(); err != nil {
			return err
		}
		if err := os.Rename(p.older, p.path); err != nil {
			return err
		}
		return p.fresh()
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

func (p *player) restart() error {
	p.files++
	p.older = fmt.Sprintf("%s/older%d.db", p.dir, p.files)
	if err := p.copyTo(p.older); err != nil {
		return err
	}
	if err := p.end(); err != nil {
		return err
	}
	p.net.cut()
	return p.again()
}

func (p *player) again() error {
	p.unsynced = ""
	if err := p.open(); err != nil {
		return err
	}
	p.run()
	return nil
}

// fresh goes on with a file that has to be a new one.
func (p *player) fresh() error {
	p.net.cut()
	p.older = ""
	if err := p.again(); err != nil {
		return err
	}
	last, err := p.ledger.Store.Last(context.Background())
	if err != nil {
		return err
	}
	if _, p.base, err = p.lanes.Start(); err != nil || p.base != last {
		return fmt.Errorf("the file knows base %d, want a fresh one with %d", p.base, last)
	}
	return p.fanOut()
}

// TestForwardOnly plays scripts of 76 hours and more with hostile receivers,
// crashes, lost files and clocks that are set: no lane's starts ever decrease
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
		{"the mark is durable before a start", keepOldCopy, "was begun after"},
		{"nothing older is sent again", lowerMarks, "was begun after"},
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

// changeLanes changes the rows of lanes; fn reports whether it changed one.
func (p *player) changeLanes(fn func(l *store.Lane) bool) error {
	return p.lanes.writer.do(func(x *tx) error {
		changed := make(map[store.LaneKey]store.Lane)
		err := x.EachLane(func(k store.LaneKey, l store.Lane) error {
			if fn(&l) {
				changed[k] = l
			}
			return nil
		})
		for k, l := range changed {
			x.PutLane(k, l)
		}
		return err
	})
}

// forgetFlying makes lanes with an attempt under way look as if they had none.
func forgetFlying(p *player) error {
	return p.lanes.writer.do(func(x *tx) error {
		clear(p.lanes.underWay)
		for _, t := range p.lanes.all() {
			for _, k := range x.DueAfter(t.number, store.DueKey{}, windowSize) {
				t.offer(k)
				x.offered[t] = struct{}{}
			}
		}
		return nil
	})
}

// makeAllFinal makes intermediate events that wait look like final ones.
func makeAllFinal(p *player) error {
	return p.changeLanes(func(l *store.Lane) bool {
		for i := range l.Line {
			l.Line[i].Final = true
		}
		return len(l.Line) > 0
	})
}

// lowerMarks makes idle lanes forget all but their first event.
func lowerMarks(p *player) error {
	return p.changeLanes(func(l *store.Lane) bool {
		forget := len(l.Line) == 0 && l.Newest > 1
		if forget {
			l.Started, l.Newest = 1, 1
		}
		return forget
	})
}

// keepOldCopy lets the next crash lose what was committed since now, as if it had
// not been synced.
func keepOldCopy(p *player) error {
	if p.unsynced != "" {
		return nil
	}
	p.files++
	p.unsynced = fmt.Sprintf("%s/unsynced%d.db", p.dir, p.files)
	return p.copyTo(p.unsynced)
}
