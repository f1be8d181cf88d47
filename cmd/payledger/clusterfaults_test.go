package main

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
)

// campaign lets clients work at three nodes while those are killed and stopped, and what
// they say to each other is held back.
type campaign struct {
	t   *testing.T
	n   *nodes
	net *network
	c   *clients
	r   *rand.Rand
	did map[string]int // faults by name

	hook *hook
}

// fault goes wrong with a node, and it may take the others until it is over to go on. end
// puts it right.
type fault struct {
	name  string
	begin func(c *campaign, leader int) (end func())
	left  func(leader int) []int // nodes that answer during the fault, once they have elected; nil: none need
}

// followers of a leader.
func followers(leader int) []int { return []int{(leader + 1) % 3, (leader + 2) % 3} }

// allBut the first follower.
func allBut(leader int) []int { return []int{leader, (leader + 2) % 3} }

var faults = []fault{
	{"kill the leader", func(c *campaign, s int) func() { return c.kill(s) }, followers},
	{"kill a follower", func(c *campaign, s int) func() { return c.kill((s + 1) % 3) }, allBut},
	{"kill two nodes", func(c *campaign, s int) func() { return c.kill(s, (s+1)%3) }, nil},
	{"kill all nodes", func(c *campaign, s int) func() { return c.kill(0, 1, 2) }, nil},
	{"cut the leader off", func(c *campaign, s int) func() { return c.hold(append(from(s), to(s)...)) }, followers},
	{"cut a follower off", func(c *campaign, s int) func() { return c.hold(append(from((s+1)%3), to((s+1)%3)...)) }, allBut},
	{"drop the replies to the leader", func(c *campaign, s int) func() { return c.hold(to(s)) }, nil},
	{"drop what the leader says", func(c *campaign, s int) func() { return c.hold(from(s)) }, nil},
	{"cut between two nodes", func(c *campaign, s int) func() { return c.hold(between(s, (s+1)%3)) }, nil},
	{"stop the leader for a while", func(c *campaign, s int) func() { return c.pause(s) }, nil},
	{"stop a follower for a while", func(c *campaign, s int) func() { return c.pause((s + 1) % 3) }, nil},
	{"slow lines", func(c *campaign, s int) func() {
		c.net.change(nil, slow(append(from(s), between((s+1)%3, (s+2)%3)...), 30*time.Millisecond))
		return c.net.heal
	}, nil},
}

// kill ends processes. They are started again together.
func (c *campaign) kill(which ...int) (start func()) {
	for _, i := range which {
		c.n.servers[i].kill()
	}
	return func() {
		c.n.start(c.t, which...)
		for _, i := range which {
			c.c.next(i, c.n.servers[i])
		}
	}
}

func (c *campaign) hold(ways []way) (heal func()) {
	c.net.change(ways, nil)
	return c.net.heal
}

func (c *campaign) pause(i int) (goOn func()) {
	signal := func(s syscall.Signal) {
		if err := c.n.servers[i].cmd.Process.Signal(s); err != nil {
			c.t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	return func() { signal(syscall.SIGCONT) }
}

// answer waits until each of the nodes has answered again.
func (c *campaign) answer(what string, which []int) {
	before := c.c.answered()
	eventually(c.t, what, func() bool {
		now := c.c.answered()
		return !slices.ContainsFunc(which, func(i int) bool { return now[i] < before[i]+3 })
	})
	c.say(what)
}

func (c *campaign) say(what string) {
	c.t.Logf("%v: %s", time.Since(c.c.start).Round(time.Millisecond), what)
}

func (c *clients) answered() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.answers)
}

// strike lets one thing go wrong for a time, or until those that are left have answered.
func (c *campaign) strike(f fault, leader int, during time.Duration) {
	c.did[f.name]++
	end := f.begin(c, leader)
	if during == 0 && f.left != nil {
		c.answer(f.name+", and two nodes go on", f.left(leader))
	}
	time.Sleep(during)
	c.say(f.name + " is over")
	end()
}

// TestClusterUnderFaults: three nodes behind a network that fails are killed, stopped and
// cut off while clients work at all of them. What they see is linearizable, what was
// answered is there in the end, once, the three logs are the same, and so is EVENTS; and
// no webhook goes backward. PAYLEDGER_SEED plays another schedule.
func TestClusterUnderFaults(t *testing.T) {
	t.Parallel()
	if !long() {
		c := newCampaign(t, seedOr(1))
		for _, f := range []int{0, 6, 4, 10} {
			c.strike(faults[f], c.n.leader(t, 0), map[int]time.Duration{6: 1500 * time.Millisecond, 10: time.Second}[f])
			c.answer("after: "+faults[f].name, []int{0, 1, 2})
		}
		c.finish(false)
		return
	}
	manyFaults(t, seedOr(1))
}

// These play two more schedules. They are no subtests, which would begin when all other tests
// have, and last longer.

func TestClusterUnderMoreFaults(t *testing.T) {
	inLong(t)
	t.Parallel()
	manyFaults(t, seedOr(1)+1)
}

func TestClusterUnderEvenMoreFaults(t *testing.T) {
	inLong(t)
	t.Parallel()
	manyFaults(t, seedOr(1)+2)
}

// manyFaults are some 25, of which at least 20 are kills and cuts.
func manyFaults(t *testing.T, seed uint64) {
	t.Helper()
	c := newCampaign(t, seed)
	for broken := 0; broken < 20 && !t.Failed(); {
		f := faults[c.r.IntN(len(faults))]
		during := time.Duration(c.r.IntN(4000)) * time.Millisecond
		if c.r.IntN(2) == 0 {
			during = 0
		}
		if f.left == nil {
			during = max(during, 500*time.Millisecond)
		}
		if strings.HasPrefix(f.name, "kill") || strings.HasPrefix(f.name, "cut") || strings.HasPrefix(f.name, "drop") {
			broken++
		}
		c.strike(f, c.n.leader(t, c.r.IntN(3)), during)
		if c.r.IntN(4) > 0 { // else the next one comes before they have recovered
			c.answer("after: "+f.name, []int{0, 1, 2})
		}
	}
	c.finish(true)
}

// TestNodesStopTogether: three nodes that are stopped together while clients work end in good
// order, whichever of them leads until the end.
func TestNodesStopTogether(t *testing.T) {
	inLong(t)
	t.Parallel()
	n := newNodes(t)
	n.flags = retriesAtOnce()
	n.start(t, 0, 1, 2)
	n.project(t)
	n.notifies(t, 0, newHook(t))
	for round := range uint64(4) {
		c := newClients(t, 300, 3)
		c.rest = 5 * time.Millisecond
		for i, s := range n.servers {
			c.next(i, s)
		}
		c.begin(12, round)
		eventually(t, "the clients have answers", func() bool { return slices.Min(c.answered()) > 50 })
		n.stop(t)
		c.end()
		n.start(t, 0, 1, 2)
	}
}

func seedOr(usual uint64) uint64 {
	if one, err := strconv.ParseUint(os.Getenv("PAYLEDGER_SEED"), 10, 64); err == nil {
		return one
	}
	return usual
}

func newCampaign(t *testing.T, seed uint64) *campaign {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("PAYLEDGER_SEED=%d", seed)
		}
	})
	n := newNodes(t)
	n.flags = append(retriesAtOnce(), "--admin-listen", "127.0.0.1:0")
	c := &campaign{t: t, n: n, net: newNetwork(t, n), r: rand.New(rand.NewPCG(seed, 3)), did: map[string]int{}}
	n.start(t, 0, 1, 2)
	n.project(t)
	c.c = newClients(t, 2000, 3)
	c.c.rest = 5 * time.Millisecond
	for i, s := range n.servers {
		c.c.next(i, s)
	}
	c.hook = newHook(t)
	n.notifies(t, 0, c.hook)
	c.c.begin(12, seed)
	return c
}

// finish ends the campaign and looks at what is left of it. If it is thorough it waits
// until all outcomes are notified, which takes a while since a new leader waits with
// what the last one had begun, and reads EVENTS.
func (c *campaign) finish(thorough bool) {
	c.t.Helper()
	c.c.end()
	for _, op := range []string{opCreate, opPay, opRefund} { // so that there is one with a refund
		c.c.insist(0, 0, asked{op: op})
	}
	used := c.c.used()
	paid := c.c.readAll(used, 6)
	c.c.check()
	if c.t.Failed() {
		return
	}
	c.say("the history is judged")
	if thorough { // nothing is appended after this
		eventually(c.t, "all outcomes are notified", func() bool { return c.hook.knows(paid) })
		c.leaderSays("all notifications are settled", regexp.MustCompile(`(?m)^payledger_webhook_deliveries_pending.* 0$`))
	}
	c.n.agree(c.t, used)
	c.say("the logs agree")
	c.leaderSays("EVENTS has all of the log", regexp.MustCompile(`(?m)^payledger_relay_lag_events 0$`))
	c.n.stop(c.t)
	if thorough {
		c.n.eventsAreLog(c.t)
		c.say("EVENTS is the log")
	}
	c.hook.mu.Lock()
	defer c.hook.mu.Unlock()
	for _, w := range c.hook.wrongs {
		c.t.Error(w)
	}
	names := slices.Sorted(maps.Keys(c.did))
	for i, name := range names {
		names[i] = fmt.Sprintf("%s: %d", name, c.did[name])
	}
	c.t.Logf("%s; %d payments, %d of them paid, %d webhooks", strings.Join(names, ", "), used, len(paid), c.hook.count)
}

// leaderSays waits until the leader's metrics have a line.
func (c *campaign) leaderSays(what string, line *regexp.Regexp) {
	c.t.Helper()
	eventually(c.t, what, func() bool { return line.Match(c.n.servers[c.n.leader(c.t, 0)].scrape(c.t)) })
	c.say(what)
}

// used is how many of the payments the clients have worked on.
func (c *clients) used() int { return min(len(c.payments), 3+len(c.history)/40) }

// readAll creates what was not created yet and reads all payments at all nodes. These
// operations belong to the history. It answers which payments are paid.
func (c *clients) readAll(used, workers int) (paid []string) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for n := w; n < used; n += workers {
				c.insist(w, n, asked{op: opCreate, payment: n})
				for at := range c.servers {
					out := c.insist(w, at, asked{op: opGet, payment: n})
					c.mu.Lock()
					if at == 0 && out.status == "paid" {
						paid = append(paid, c.payments[n].payment)
					}
					c.mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return paid
}

// insist asks a server, and if need be the next ones, until there is an answer.
func (c *clients) insist(client, at int, in asked) answered {
	for deadline := time.Now().Add(patience); ; at++ {
		c.mu.Lock()
		s, id := c.servers[at%len(c.servers)], c.payments[in.payment].payment
		c.mu.Unlock()
		o := porcupine.Operation{ClientId: client, Input: in, Call: time.Since(c.start).Nanoseconds(), Return: math.MaxInt64}
		out := ask(s, in, id)
		if !out.unknown {
			o.Return = time.Since(c.start).Nanoseconds()
		}
		o.Output = out
		c.mu.Lock()
		c.history = append(c.history, o)
		c.learn(in, out)
		c.mu.Unlock()
		if !out.unknown {
			return out
		}
		if time.Now().After(deadline) {
			c.t.Errorf("no node answers: %s of payment %d", in.op, in.payment)
			return out
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// stop stops all nodes together.
func (n *nodes) stop(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	for _, s := range n.servers {
		all.Go(func() { s.stops(t) })
	}
	all.Wait()
}

// eventsAreLog compares EVENTS with the log: message for message, at the log's positions.
// The nodes are stopped; their NATS servers run for as long as this takes.
func (n *nodes) eventsAreLog(t *testing.T) {
	t.Helper()
	store, err := bolt.OpenReadOnly(datadir.Dir(n.dirs[0]).Ledger())
	if err != nil {
		t.Fatal(err)
	}
	var log []eventstore.Stored
	for r, err := range store.Scan(t.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, r)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var started [3]*clusternode.Node
	var all sync.WaitGroup
	for i, dir := range n.dirs {
		all.Go(func() {
			m, err := clusternode.Load(datadir.Dir(dir))
			if err == nil {
				started[i], err = m.Open(t.Context(), clusternode.Config{Dir: datadir.Dir(dir), Log: zerolog.Nop()})
			}
			if err == nil {
				err = started[i].Start(t.Context(), embedded.Config{Log: zerolog.Nop()})
			}
			if err != nil {
				t.Errorf("node %s: %v", nodeNames[i], err)
			}
		})
	}
	all.Wait()
	defer func() {
		for _, node := range started {
			if node != nil {
				node.Close()
			}
		}
	}()
	if t.Failed() {
		return
	}
	js, err := jetstream.New(started[0].Conn.NATS())
	if err != nil {
		t.Fatal(err)
	}
	var events jetstream.Stream
	eventually(t, "EVENTS has as many messages as the log", func() (ok bool) {
		if events, err = js.Stream(t.Context(), bus.EventsStream); err != nil {
			return false
		}
		has := events.CachedInfo().State
		return has.LastSeq == uint64(len(log)) && has.Msgs == uint64(len(log))
	})
	for _, r := range log {
		var m *jetstream.RawStreamMsg
		eventually(t, "EVENTS can be read", func() bool {
			m, err = events.GetMsg(t.Context(), uint64(r.Position))
			return err == nil
		})
		if m.Header.Get(bus.HeaderID) != r.Commit.String() || !bytes.Equal(m.Data, r.Body) {
			t.Fatalf("at position %d EVENTS has %v %s, the log %s", r.Position, m.Header, m.Data, r.Body)
		}
	}
}
