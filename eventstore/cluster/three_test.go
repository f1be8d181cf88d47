package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster/forms"
	"payledger/notifier/health/healthtest"
)

// three is a cluster of three nodes with their servers in this process.
type three struct {
	t       testing.TB
	dir     string
	options []*natsserver.Options
	servers [3]*natsserver.Server
	conns   [3]*nats.Conn
	stores  [3]*Store
	ahead   [3]atomic.Int64 // of the nodes' clocks, in nanoseconds
	minFree [3]uint64

	programs [3]forms.Program
	prepare  func(ctx context.Context, ledger domain.ID) error
}

// patienceOfTests is how long a test waits for what has to come, on a busy machine.
const patienceOfTests = 2 * time.Minute

// serverOptions are those of three servers that form a cluster.
func serverOptions(t testing.TB) (options []*natsserver.Options) {
	t.Helper()
	var routes []*url.URL
	for range names {
		u, _ := url.Parse("nats://" + healthtest.FreeAddress(t))
		routes = append(routes, u)
	}
	for i, name := range names {
		port, _ := strconv.Atoi(routes[i].Port())
		options = append(options, &natsserver.Options{
			ServerName: name, Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, SyncAlways: true,
			StoreDir: t.TempDir(), Routes: routes,
			Cluster: natsserver.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port},
		})
	}
	return options
}

var names = []string{"A", "B", "C"}

func startThree(t testing.TB) *three {
	t.Helper()
	x := &three{t: t}
	x.start()
	return x
}

func (x *three) start() {
	x.t.Helper()
	t := x.t
	x.dir, x.options = t.TempDir(), serverOptions(t)
	for i := range names {
		if err := bolt.Init(x.path(i), domain.ID{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for i := range names {
			x.stop(i)
		}
	})
	x.startAll()
}

func (x *three) startAll() {
	x.t.Helper()
	var all sync.WaitGroup
	for i := range names {
		x.serve(i)
	}
	for i := range names {
		all.Go(func() { x.open(i) })
	}
	all.Wait()
	if x.t.Failed() {
		x.t.FailNow()
	}
}

func (x *three) path(i int) string { return filepath.Join(x.dir, names[i]+".db") }

func (x *three) serve(i int) {
	s, err := natsserver.NewServer(x.options[i])
	if err != nil {
		x.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patienceOfTests) {
		x.t.Fatal("the server does not start")
	}
	x.servers[i] = s
	if x.conns[i], err = nats.Connect("", nats.InProcessServer(s), nats.MaxReconnects(-1)); err != nil {
		x.t.Fatal(err)
	}
}

func (x *three) open(i int) {
	if err := x.tryOpen(i); err != nil {
		x.t.Errorf("node %s: %v", names[i], err)
	}
}

func (x *three) tryOpen(i int) error {
	ctx, cancel := context.WithTimeout(x.t.Context(), patienceOfTests)
	defer cancel()
	s, err := Open(ctx, Config{
		Name: names[i], Peers: slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == names[i] }),
		Path: x.path(i), Bolt: bolt.Options{MinFree: max(1, x.minFree[i])}, Conn: x.conns[i], Found: i == 0, LOG: domain.ID{9},
		Start:  [8]byte{byte(i), byte(time.Now().UnixNano()), byte(time.Now().UnixNano() >> 8)},
		Now:    func() time.Time { return time.Now().Add(time.Duration(x.ahead[i].Load())) },
		Report: func(err error) { x.t.Logf("%s: %v", names[i], err) }, Program: x.programs[i], Prepare: x.prepare,
	})
	if err == nil {
		x.stores[i] = s
	}
	return err
}

func (x *three) close(i int) {
	if x.stores[i] != nil {
		if err := x.stores[i].Close(); err != nil {
			x.t.Errorf("closing node %s: %v", names[i], err)
		}
	}
	x.stores[i] = nil
}

func (x *three) stop(i int) {
	x.close(i)
	if x.servers[i] != nil {
		x.conns[i].Close()
		x.servers[i].Shutdown()
		x.servers[i].WaitForShutdown()
	}
	x.servers[i] = nil
}

// sequencer waits for one, and returns its index.
func (x *three) sequencer() int {
	x.t.Helper()
	for x.t.Context().Err() == nil {
		for i, s := range x.stores {
			if s != nil && s.Status().Ready {
				return i
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	x.t.Fatal("nobody sequences")
	return 0
}

func paymentCommit(i int, expect eventstore.Position) eventstore.Commit {
	id := domain.ID{1, 161, 248, 116, 0, 0, 1, 11: byte(expect), 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}
	return eventstore.Commit{ID: id, Claim: &eventstore.Claim{Key: domain.Digest{byte(i), byte(i >> 8), byte(expect), 1}}, Record: eventstore.Record{
		Stream: eventstore.PaymentStream("prj_01M7W78FJBM8T4R7B5N0C1D2E3", id), Expect: expect, Body: fmt.Appendf(nil, `{"id":%q}`, id),
	}}
}

// recordsOf are all records of the cluster's log, in a node's file.
func recordsOf(t *testing.T, s *Store) (all []eventstore.Stored) {
	t.Helper()
	if _, err := lastOf(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for r, err := range s.Scan(t.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// appended sends a commit until it is known what became of it: on a busy machine an
// election takes longer than a node waits.
func appended(ctx context.Context, s *Store, c eventstore.Commit) (r eventstore.Stored, err error) {
	for range 10 {
		if r, err = eventstore.AppendOne(ctx, s, c); !errors.Is(err, eventstore.ErrUnconfirmed) {
			break
		}
	}
	return r, err
}

// lastOf asks until a true answer is possible.
func lastOf(ctx context.Context, s *Store) (p eventstore.Position, err error) {
	for range 30 {
		if p, err = s.Last(ctx); !errors.Is(err, eventstore.ErrBusy) {
			break
		}
	}
	return p, err
}

// Three nodes keep one log: what any of them acknowledges, all of them read at once,
// also after one was stopped, and refusals are the same on each.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	x := startThree(t)
	leader := x.sequencer()
	ctx := t.Context()
	const each = 40
	write := func(from int, up ...int) {
		var all sync.WaitGroup
		for _, i := range up {
			for w := range 4 {
				all.Go(func() {
					for n := range each {
						c := paymentCommit(from+1000*i+100*w+n, 0)
						r, err := appended(ctx, x.stores[i], c)
						if err != nil {
							t.Errorf("node %s: %v", names[i], err)
							return
						}
						// Another node knows of it at once.
						other := x.stores[up[(n+w)%len(up)]]
						if last, err := lastOf(ctx, other); err != nil || last < r.Position {
							t.Errorf("after position %d another node is at %d: %v", r.Position, last, err)
						}
					}
				})
			}
		}
		all.Wait()
	}
	write(0, 0, 1, 2)
	// While all nodes answer, reads publish nothing. On a busy machine some answer late, and
	// then they do: the next reads show it.
	const reads = 30
	for began := time.Now(); ; {
		before := x.stores[leader].Status().Group
		for n := range reads {
			if _, err := lastOf(ctx, x.stores[n%3]); err != nil {
				t.Error(err)
			}
		}
		groups := x.stores[leader].Status().Group - before
		if groups <= reads/2 {
			break
		}
		if time.Since(began) > patienceOfTests {
			t.Errorf("for %v reads published groups, at last %d reads %d", patienceOfTests, reads, groups)
			break
		}
	}
	for i, s := range x.stores {
		var conflict *eventstore.ConflictError
		taken := paymentCommit(1, 0)
		taken.ID[9] = 1
		taken.Claim = nil
		if _, err := appended(ctx, s, taken); !errors.As(err, &conflict) {
			t.Errorf("node %s: %v, want a conflict", names[i], err)
		}
		taken = paymentCommit(2, 0)
		taken.ID[9] = 1
		if _, err := appended(ctx, s, taken); !errors.As(err, new(*eventstore.ClaimedError)) {
			t.Errorf("node %s: %v, want that the key is taken", names[i], err)
		}
		again, err := appended(ctx, s, paymentCommit(1, 0))
		if err != nil || again.Commit != paymentCommit(1, 0).ID {
			t.Errorf("node %s: the same commit again: %v", names[i], err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}

	x.stop(leader)
	for i, s := range x.stores {
		if s == nil {
			continue
		}
		all := s.Statuses(ctx)
		for j, st := range all {
			if st.Name != names[j] || (st.Silent != "") != (j == leader) {
				t.Errorf("node %s says of %s: %+v", names[i], names[j], st)
			}
		}
		// While LOG has no leader, all three are replicas.
		if st := all[i]; st.Group == 0 || st.Position == 0 || st.LOG.Last == 0 || (len(st.LOG.Replicas) != 2 && st.LOG.Leader != "") || st.ReadAt.IsZero() || st.Stopped != "" {
			t.Errorf("node %s: %+v", names[i], st)
		}
	}
	rest := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == leader })
	x.sequencer()
	write(10_000, rest...)
	x.serve(leader)
	x.open(leader)
	write(20_000, 0, 1, 2)
	if t.Failed() {
		t.FailNow()
	}
	var first []eventstore.Stored
	for i, s := range x.stores {
		all := recordsOf(t, s)
		if i == 0 {
			first = all
		}
		if want := 4 * each * (3 + 2 + 3); len(all) != want || len(first) != want {
			t.Errorf("node %s has %d records, want %d", names[i], len(all), want)
		}
		if !slices.EqualFunc(first, all, func(a, b eventstore.Stored) bool {
			return a.Commit == b.Commit && a.Position == b.Position && string(a.Body) == string(b.Body)
		}) {
			t.Errorf("node %s has other records", names[i])
		}
		if err := s.Verify(ctx); err != nil {
			t.Error(err)
		}
	}
}

// While the office goes from node to node no command fails, none happens twice, and
// each node finds at once what any of them has acknowledged.
func TestHandOver(t *testing.T) {
	t.Parallel()
	x := startThree(t)
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfTests)
	defer cancel()
	over := make(chan struct{})
	var written [3]int
	var longest [3]time.Duration
	var all sync.WaitGroup
	for i, s := range x.stores {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				began := time.Now()
				r, err := appended(ctx, s, paymentCommit(1000*i+n, 0))
				if err != nil {
					t.Errorf("node %s: %v", names[i], err)
					return
				}
				longest[i] = max(longest[i], time.Since(began))
				written[i]++
				if last, err := lastOf(ctx, x.stores[(i+1)%3]); err != nil || last < r.Position {
					t.Errorf("after position %d another node is at %d: %v", r.Position, last, err)
				}
			}
		})
	}
	hand := func(asked, to int) (string, error) { // until the node is fit
		for {
			got, err := x.stores[asked].HandOver(ctx, names[to])
			if !errors.As(err, new(*HandOverError)) {
				return got, err
			}
			t.Logf("node %s says: %v", names[asked], err)
			time.Sleep(100 * time.Millisecond)
		}
	}
	last := x.sequencer()
	for n := range 6 {
		to, asked := (last+1)%3, (last+n)%3
		began := time.Now()
		got, err := hand(asked, to)
		if err != nil || got != names[to] || !x.stores[to].Status().Ready {
			t.Errorf("node %s, asked to have %s take over from %s: %s, %v", names[asked], names[to], names[last], got, err)
			break
		}
		t.Logf("from %s to %s: %v", names[last], names[to], time.Since(began))
		last = to
	}
	if got, err := hand((last+1)%3, last); err != nil || got != names[last] {
		t.Errorf("handing over to the sequencer itself: %s, %v", got, err)
	}
	if err := x.stores[last].Withdraw(ctx); err != nil {
		t.Errorf("withdrawing: %v", err)
	}
	if _, err := x.stores[(last+1)%3].HandOver(ctx, names[last]); !errors.As(err, new(*HandOverError)) {
		t.Errorf("handing over to a node that is withdrawn: %v", err)
	}
	close(over)
	all.Wait()
	t.Logf("the longest commit of each node took %v", longest)
	if last, err := lastOf(ctx, x.stores[0]); err != nil || int(last) != written[0]+written[1]+written[2] {
		t.Errorf("%d records after %v commits: %v", last, written, err)
	}
}

// until waits until something is so.
func (x *three) until(what string, is func() bool) {
	x.t.Helper()
	for deadline := time.Now().Add(patienceOfTests); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			x.t.Fatalf("timed out waiting: %s", what)
		}
	}
}

// A sequencer whose clock is wrong, or whose disk is full, hands over, and nobody hands
// over to it.
func TestUnfitSequencer(t *testing.T) {
	t.Parallel()
	x := startThree(t)
	ctx := t.Context()
	records := 0
	write := func(at int) {
		records++
		x.until("a commit is recorded", func() bool { // meanwhile it is refused
			_, err := appended(ctx, x.stores[at], paymentCommit(records, 0))
			return err == nil
		})
	}
	write(0)
	wrong := x.sequencer()
	fit := (wrong + 1) % 3
	x.ahead[wrong].Store(int64(-2 * time.Second)) // each way of being wrong is tried once
	unfit := func(why string) {
		t.Helper()
		x.until("node "+names[wrong]+" hands over, because "+why, func() bool {
			return !x.stores[wrong].Status().Leading && x.stores[fit].Status().Leader != "" && x.stores[fit].Status().Leader != names[wrong]
		})
		write(fit)
		x.until("the sequencer refuses to hand over to it: "+why, func() bool {
			_, err := x.stores[fit].HandOver(ctx, names[wrong])
			return errors.As(err, new(*HandOverError)) && strings.Contains(err.Error(), why)
		})
	}
	unfit("behind those of all others")
	x.ahead[wrong].Store(int64(2 * time.Second))
	x.until("the clock is noticed", func() bool {
		st := x.stores[wrong].Status()
		return st.Ahead() > time.Second && strings.Contains(st.Unable, "ahead of those of all others")
	})
	x.ahead[wrong].Store(0)
	x.until("the clock is right again", func() bool { return x.stores[wrong].Status().Unable == "" })

	// Its file is at LOG's end, but cannot grow.
	x.until("all nodes have all groups", func() bool {
		_, err := lastOf(ctx, x.stores[wrong])
		return err == nil
	})
	x.stop(wrong)
	x.minFree[wrong] = 1 << 62
	x.serve(wrong)
	x.open(wrong)
	x.until("its replica of LOG is current", func() bool {
		return slices.ContainsFunc(x.stores[fit].Status().LOG.Replicas, func(r Replica) bool { return r.Name == names[wrong] && r.Current && !r.Offline })
	})
	x.until("node "+names[wrong]+" is made LOG's leader", func() bool {
		x.stores[fit].stepDown(nodeName(names[wrong]))
		for range 100 {
			if x.stores[wrong].Status().Leading {
				return true
			}
			time.Sleep(10 * time.Millisecond)
		}
		return false
	})
	unfit(eventstore.ErrFull.Error())
	if last, err := lastOf(ctx, x.stores[fit]); err != nil || int(last) != records {
		t.Errorf("%d records after %d commits: %v", last, records, err)
	}
}

// LOG ends while it is written to. The node that goes on has all that was answered, and no
// node takes part again, also one that was away.
func TestEndOfLOG(t *testing.T) {
	t.Parallel()
	x := startThree(t)
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfTests)
	defer cancel()
	alone := (x.sequencer() + 1) % 3
	var answered atomic.Int64
	var all sync.WaitGroup
	for i, s := range x.stores {
		all.Go(func() {
			for n := 0; ; n++ {
				if _, err := eventstore.AppendOne(ctx, s, paymentCommit(1000*i+n, 0)); err != nil {
					return
				}
				answered.Add(1)
			}
		})
	}
	x.until("all nodes write", func() bool { return answered.Load() > 20 })
	x.until("LOG ends", func() bool { return x.stores[alone].EndLOG(ctx) == nil })
	all.Wait()
	for i, s := range x.stores {
		x.until("node "+names[i]+" has ended", func() bool { return strings.Contains(s.Status().Stopped, "node "+names[alone]+" goes on alone") })
	}
	if last, err := x.stores[alone].Store.Last(ctx); err != nil || int64(last) < answered.Load() {
		t.Errorf("%d records after %d answers: %v", last, answered.Load(), err)
	}
	for i := range names {
		x.stop(i)
		x.serve(i)
		s, err := Open(ctx, Config{Name: names[i], Peers: []string{"X", "Y"}, Path: x.path(i), Bolt: bolt.Options{MinFree: 1}, Conn: x.conns[i], Now: time.Now})
		if ended, ok := errors.AsType[*EndedError](err); !ok || ended.Heir != names[alone] {
			t.Errorf("node %s takes part again: %v, %v", names[i], s, err)
		}
	}
}
