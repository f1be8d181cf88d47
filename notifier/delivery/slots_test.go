package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/health"
	"payledger/notifier/webhook"
)

// crowd is many projects with endpoints whose receivers answer at once, after
// a while, or never.
type crowd struct {
	*world

	mu       sync.Mutex
	flying   map[string]int // by project
	most     map[string]int // of these at the same time; "": of all projects
	attempts map[string]int // by URL
	answer   map[string]time.Duration
}

func (*crowd) Check(string) error { return nil }

// Send implements Sender.
func (c *crowd) Send(ctx context.Context, r webhook.Request) webhook.Outcome {
	project, _, _ := strings.Cut(strings.TrimPrefix(r.URL, "https://"), ".")
	c.mu.Lock()
	c.attempts[r.URL]++
	for _, of := range []string{project, ""} {
		c.flying[of]++
		c.most[of] = max(c.most[of], c.flying[of])
	}
	answer := c.answer[project]
	c.mu.Unlock()
	answered := health.Pause(ctx, min(answer, domain.AnswerTime))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flying[project]--
	c.flying[""]--
	switch {
	case !answered:
		return webhook.Outcome{Class: webhook.ClassCancelled}
	case answer >= domain.AnswerTime:
		return webhook.Outcome{Class: webhook.ClassTimeout, Duration: domain.AnswerTime}
	}
	return webhook.Outcome{Delivered: true, Status: http.StatusOK, Duration: answer}
}

const never = 2 * domain.AnswerTime

// project adds one whose receivers answer after so long.
func (c *crowd) project(name string, answer time.Duration, endpoints int) {
	c.mu.Lock()
	_, again := c.answer[name]
	c.answer[name] = answer
	c.mu.Unlock()
	if again {
		return
	}
	do := func(cmd projects.ProjectCommand) {
		_, err := eventstore.Execute(context.Background(), c.ledger, eventstore.ProjectStream(name), projects.Project{ID: name}, cmd,
			eventstore.Order{EventID: c.ids.Next()})
		if err != nil {
			panic(err)
		}
	}
	do(projects.RegisterProject{Name: name, Settings: domain.DefaultSettings()})
	for i := range endpoints {
		do(projects.AddEndpoint{
			At: domain.InstantOf(c.now()), EndpointID: fmt.Sprintf("we_%s_%d", name, i), URL: fmt.Sprintf("https://%s.example/%d", name, i),
			Kinds: domain.Kinds(), KeyVersion: 1,
		})
	}
}

// notify makes so many payments in each of some projects, which each of their endpoints is
// notified of.
func (c *crowd) notify(t *testing.T, each int, projects ...string) {
	t.Helper()
	for _, name := range projects {
		for range each {
			c.paymentOf(name)
		}
	}
	if err := c.views.Deliveries().Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// pending is how many notifications to a project are not settled.
func (c *crowd) pending(project string) (n int) {
	for _, e := range c.views.Deliveries().Endpoints() {
		if e.Project == project {
			n += e.Pending
		}
	}
	return n
}

// crowded runs a test with room for 64 requests, on a virtual clock.
func crowded(t *testing.T, log zerolog.Logger, fn func(t *testing.T, c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{
			world: newWorld(t), flying: map[string]int{}, most: map[string]int{},
			attempts: map[string]int{}, answer: map[string]time.Duration{},
		}
		c.metrics = prometheus.NewRegistry()
		config := c.config()
		config.Log, config.Sender, config.Limits.Requests = log, c, 64
		c.lanes = New(config)
		c.run()
		c.sender()
		defer c.end(t)
		fn(t, c)
	})
}

func (c *crowd) end(t *testing.T) {
	t.Helper()
	sender := c.sender()
	if err := errors.Join(c.world.end(), c.close()); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(c.metrics.(*prometheus.Registry)); n != 0 || err != nil {
		t.Errorf("%d metrics are left, %v", n, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most[""] > 64 {
		t.Errorf("%d requests were under way, want 64 at most", c.most[""])
	}
	// What everybody holds is given back.
	s := sender.slots
	for _, to := range sender.all() {
		if to.share.held != to.share.granted {
			t.Errorf("%s holds %d slots at the end", to.id, to.share.held)
		}
	}
	if granted := s.taken; granted > 64 || s.slow < 0 || s.slow > s.taken {
		t.Errorf("%d slots are taken at the end, %d by slow endpoints", s.taken, s.slow)
	}
}

// silentProjects adds some that never answer, with 16 endpoints each.
func (c *crowd) silentProjects(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("silent%d", i))
		c.project(names[i], never, projects.MaxEndpoints)
	}
	return names
}

// TestSilentReceiversTakeNotAllSlots: however many endpoints never answer, one
// that does is notified at once, also when it was never notified before, and
// all who wait get their turn.
func TestSilentReceiversTakeNotAllSlots(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		silent int // projects
		known  bool
	}{
		"a new endpoint beside one project's":               {silent: 1},
		"a new endpoint beside a dozen projects'":           {silent: 12},
		"an endpoint that answered, beside forty projects'": {silent: 40, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crowded(t, zerolog.Nop(), func(t *testing.T, c *crowd) {
				c.project("shop", 50*time.Millisecond, 1)
				if test.known {
					c.notify(t, 1, "shop")
					time.Sleep(time.Second)
				}
				silent := c.silentProjects(test.silent)
				c.notify(t, 5, silent...)
				for range 60 {
					c.notify(t, 3, "shop")
					time.Sleep(time.Second)
					if n := c.pending("shop"); n != 0 {
						t.Fatalf("%d notifications wait for longer than a second", n)
					}
				}
				if s := c.sender().slots; test.silent > 1 && s.waiting() == 0 {
					t.Error("nobody waits: the bound was not tried")
				}
				c.mu.Lock()
				for of, most := range c.most {
					if of != "" && most > 48 {
						t.Errorf("%s had %d requests under way", of, most)
					}
				}
				c.mu.Unlock()
				time.Sleep(10 * time.Minute)
				c.mu.Lock()
				defer c.mu.Unlock()
				if n := len(c.attempts); n != 16*test.silent+1 {
					t.Errorf("%d of %d endpoints were tried", n, 16*test.silent+1)
				}
			})
		})
	}
}

// TestAnOutageOfMany: endpoints that answered are slow from the moment that
// one of their requests is, and not only when it has failed.
func TestAnOutageOfMany(t *testing.T) {
	t.Parallel()
	crowded(t, zerolog.Nop(), func(t *testing.T, c *crowd) {
		c.project("shop", 50*time.Millisecond, 1)
		var others []string
		for i := range 3 {
			others = append(others, fmt.Sprintf("other%d", i))
			c.project(others[i], 50*time.Millisecond, projects.MaxEndpoints)
		}
		c.notify(t, 2, append(others, "shop")...)
		time.Sleep(time.Second)
		for _, name := range others {
			c.project(name, never, projects.MaxEndpoints)
		}
		c.notify(t, 1, others...) // 48 at once
		time.Sleep(2 * slowAfter)
		c.notify(t, 15, others...)
		for range 30 {
			c.notify(t, 3, "shop")
			time.Sleep(time.Second)
			if n := c.pending("shop"); n != 0 {
				t.Fatalf("%d notifications wait for longer than a second", n)
			}
		}
	})
}

// TestBusyReceiversStarveNobody: receivers that answer fast, and always have
// more in line, leave slots to new endpoints and slow ones.
func TestBusyReceiversStarveNobody(t *testing.T) {
	t.Parallel()
	crowded(t, zerolog.Nop(), func(t *testing.T, c *crowd) {
		busy := []string{"busy0", "busy1"}
		for _, name := range busy {
			c.project(name, 900*time.Millisecond, projects.MaxEndpoints)
		}
		c.notify(t, 1, busy...)
		time.Sleep(2 * time.Second)
		c.notify(t, 300, busy...)
		time.Sleep(2 * time.Second)
		c.mu.Lock()
		flying := c.flying[""]
		c.mu.Unlock()
		if flying != 64 {
			t.Fatalf("%d requests are under way: the bound is not tried", flying)
		}
		c.project("new", 0, 1)
		c.project("slow", 5*time.Second, 1)
		c.notify(t, 1, "new", "slow")
		time.Sleep(3 * time.Second)
		if n := c.pending("new"); n != 0 {
			t.Error("a new endpoint waits")
		}
		time.Sleep(5 * time.Second)
		if n := c.pending("slow"); n != 0 {
			t.Error("a slow endpoint waits")
		}
		if c.pending("busy0") == 0 {
			t.Error("nothing was left to be sent meanwhile")
		}
	})
}

// TestWhoWaitsIsSeen in the metrics and the log, and a test that somebody asks
// for has its turn.
func TestWhoWaitsIsSeen(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	crowded(t, zerolog.New(zerolog.SyncWriter(&log)), func(t *testing.T, c *crowd) {
		silent := c.silentProjects(4)
		c.notify(t, 5, silent...)
		time.Sleep(time.Second)
		if _, err := c.lanes.Test(t.Context(), silent[3], "we_silent3_15"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		registry := c.metrics.(*prometheus.Registry)
		for name, holds := range map[string]func(float64) bool{
			"payledger_webhook_in_flight_max":     func(v float64) bool { return v == 64 },
			"payledger_webhook_in_flight":         func(v float64) bool { return v >= 32 && v <= 64 },
			"payledger_webhook_endpoints_waiting": func(v float64) bool { return v > 16 },
		} {
			if v := gathered(t, registry, name); !holds(v) {
				t.Errorf("%s is %v", name, v)
			}
		}
		time.Sleep(20 * time.Minute)
		if d, err := c.lanes.Deliveries(t.Context(), domain.DeliveryFilter{Endpoint: "we_silent3_15"}); err != nil || len(d.Deliveries) != 6 ||
			slices.ContainsFunc(d.Deliveries, func(d domain.DeliveryObject) bool { return len(d.Attempts) == 0 }) {
			t.Errorf("%+v, %v", d, err)
		}
	})
	if n := strings.Count(log.String(), "webhook endpoints wait"); n < 1 || n > 22 {
		t.Errorf("it is said %d times\n%s", n, log.String())
	}
}

func gathered(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	if n, err := testutil.GatherAndCount(registry, name); n != 1 || err != nil {
		t.Fatalf("%s: %d, %v", name, n, err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return 0
}

// TestOrderOfTheLine: a free slot goes to an endpoint that may take it, the one
// with the fewest first, and on to the next if that one does not use it.
func TestOrderOfTheLine(t *testing.T) {
	t.Parallel()
	s := newSlots(16)
	endpoint := func(project string) *target {
		return &target{project: project, slots: s, share: s.of(project), wake: make(chan struct{}, 1)}
	}
	quick := func(project string) *target {
		e := endpoint(project)
		s.over(e, false)
		return e
	}
	a, b, c, d, e := endpoint("p"), endpoint("p"), endpoint("p"), endpoint("p"), endpoint("q")
	for _, step := range []struct {
		of    *target
		n     int
		takes int
	}{
		{a, 20, 8},
		{b, 2, 1},
		{c, 2, 1},
		{d, 1, 0},
		{e, 4, 1},
		{b, 1, 0},
		{c, 1, 0},
		{quick("p"), 9, 2}, // three quarters are its project's
		{quick("r"), 9, 3},
	} {
		if got := s.takeOrWait(step.of, step.n); got != step.takes {
			t.Fatalf("%s takes %d of %d, want %d", step.of.project, got, step.n, step.takes)
		}
	}
	has := func(of *target) bool {
		select {
		case <-of.wake:
			return s.takeOrWait(of, 1) == 1
		default:
			return false
		}
	}
	s.give(a, 2)
	if has(b) || has(c) || !has(d) {
		t.Error("want the one that holds none to go first, and more to nobody")
	}
	s.give(a, 6)
	if !has(b) || !has(c) || s.waiting() != 0 {
		t.Error("want those that wait to go now")
	}
	for s.takeOrWait(a, 1) > 0 {
		continue
	}
	if s.takeOrWait(b, 1) != 0 || s.waiting() != 2 {
		t.Fatal("want two to wait")
	}
	s.give(c, 1)
	s.leave(a) // it was disabled, or nothing is due any more
	if !has(b) {
		t.Error("what the first in line had no use for did not pass on")
	}
	s.leave(b)
	if s.waiting() != 0 {
		t.Error("who left is in line")
	}
}

// TestFewestFirst: of two that wait, the one that holds fewer is served first.
func TestFewestFirst(t *testing.T) {
	t.Parallel()
	s := newSlots(8)
	var of []*target
	for i, n := range []int{4, 3, 1} {
		e := &target{slots: s, share: s.of(fmt.Sprint(i)), wake: make(chan struct{}, 1)}
		s.over(e, false)
		if got := s.takeOrWait(e, n); got != n {
			t.Fatalf("%d of %d", got, n)
		}
		of = append(of, e)
	}
	for _, e := range of {
		s.takeOrWait(e, 1)
	}
	s.give(of[0], 1)
	if of[0].share.granted != 0 || of[1].share.granted != 0 || of[2].share.granted != 1 || s.waiting() != 2 {
		t.Error("want the last one to be granted what is free")
	}
}
