package replog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
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
	doors   [3]*httptest.Server // to the nodes' handlers
	behind  [3]atomic.Pointer[http.Handler]
	ahead   [3]atomic.Int64 // of the nodes' clocks, in nanoseconds
	minFree [3]uint64
	starts  atomic.Int64
}

// patienceOfTests is how long a test waits for what has to come, on a busy machine.
const patienceOfTests = healthtest.Patience

var nodeNames = []string{"a", "b", "c"}

// serverOptions are those of three servers that form a cluster.
func serverOptions(t testing.TB) (options []*natsserver.Options) {
	t.Helper()
	var routes []*url.URL
	for range nodeNames {
		u, _ := url.Parse("nats://" + healthtest.FreeAddress(t))
		routes = append(routes, u)
	}
	for i, name := range nodeNames {
		port, _ := strconv.Atoi(routes[i].Port())
		options = append(options, &natsserver.Options{
			ServerName: name, Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, SyncAlways: true,
			StoreDir: t.TempDir(), JetStreamMaxStore: 1 << 60, Routes: routes, // whatever room the disk has for so many logs
			Cluster: natsserver.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port},
		})
	}
	return options
}

// startThree starts three nodes; the first one has a log of so many records already.
func startThree(t testing.TB, records int) *three {
	t.Helper()
	x := &three{t: t, dir: t.TempDir(), options: serverOptions(t)}
	for i := range nodeNames {
		if err := bolt.Init(x.path(i), domain.ID{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		x.doors[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h := x.behind[i].Load(); h != nil {
				(*h).ServeHTTP(w, r)
				return
			}
			http.Error(w, "down", http.StatusServiceUnavailable)
		}))
	}
	if records > 0 {
		alone, err := bolt.Open(x.path(0), bolt.Options{MinFree: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			if _, err := eventstore.AppendOne(t.Context(), alone, paymentCommit(900_000+i, 0)); err != nil {
				t.Fatal(err)
			}
		}
		if err := alone.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for i := range nodeNames {
			x.stop(i)
		}
		for _, d := range x.doors {
			d.Close()
		}
	})
	for i := range nodeNames {
		x.serve(i)
		x.open(i)
	}
	return x
}

func (x *three) path(i int) string { return filepath.Join(x.dir, nodeNames[i]+".db") }

func (x *three) serve(i int) {
	x.t.Helper()
	s, err := natsserver.NewServer(x.options[i])
	if err != nil {
		x.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patienceOfTests) {
		x.t.Fatal("the server does not start")
	}
	x.servers[i] = s
	if x.conns[i], err = nats.Connect("", nats.InProcessServer(s), nats.MaxReconnects(-1), nats.Timeout(patienceOfTests)); err != nil {
		x.t.Fatal(err)
	}
}

func (x *three) config(i int) Config {
	peers := map[string]string{}
	for j, name := range nodeNames {
		if j != i {
			peers[name] = x.doors[j].URL
		}
	}
	n := x.starts.Add(1)
	return Config{
		Name: nodeNames[i], Peers: peers, Client: http.DefaultClient, Key: testKey(1),
		Path: x.path(i), Bolt: bolt.Options{MinFree: max(1, x.minFree[i])},
		NewID: func() string { return fmt.Sprintf("log%d-%d", n, x.starts.Add(1)) }, Start: [8]byte{byte(n), byte(n >> 8)},
		LostAfter: time.Second, Now: func() time.Time { return time.Now().Add(time.Duration(x.ahead[i].Load())) },
		Report: func(err error) { x.t.Logf("%s: %v", nodeNames[i], err) },
	}
}

func (x *three) open(i int) {
	x.t.Helper()
	s, err := Open(x.t.Context(), x.config(i))
	if err == nil {
		err = s.Begin(x.conns[i])
	}
	if err != nil {
		x.t.Fatalf("node %s: %v", nodeNames[i], err)
	}
	h := s.Handler()
	x.behind[i].Store(&h)
	x.stores[i] = s
}

func (x *three) close(i int) {
	x.behind[i].Store(nil)
	if x.stores[i] != nil {
		if err := x.stores[i].Close(); err != nil {
			x.t.Errorf("closing node %s: %v", nodeNames[i], err)
		}
	}
	x.stores[i] = nil
}

// stop stops a node and its server.
func (x *three) stop(i int) {
	x.close(i)
	if x.servers[i] != nil {
		x.conns[i].Close()
		x.servers[i].Shutdown()
		x.servers[i].WaitForShutdown()
	}
	x.servers[i] = nil
}

// until waits until something is so.
func (x *three) until(what string, is func() bool) {
	x.t.Helper()
	for deadline := time.Now().Add(patienceOfTests); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, s := range x.stores {
				if s != nil {
					x.t.Logf("%+v", s.Status())
				}
			}
			x.t.Fatalf("timed out waiting: %s", what)
		}
	}
}

// leader waits for one, and returns its index.
func (x *three) leader() (i int) {
	x.t.Helper()
	x.until("a node leads", func() bool {
		i = slices.IndexFunc(x.stores[:], func(s *Store) bool { return s != nil && s.Status().Ready })
		return i >= 0
	})
	return i
}

func paymentCommit(i int, expect eventstore.Position) eventstore.Commit {
	id := domain.ID{1, 161, 248, 116, 0, 0, 1, 11: byte(expect), 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)}
	return eventstore.Commit{ID: id, Claim: &eventstore.Claim{Key: domain.Digest{byte(i), byte(i >> 8), byte(i >> 16), byte(expect), 1}}, Record: eventstore.Record{
		Stream: eventstore.PaymentStream("prj_01M7W78FJBM8T4R7B5N0C1D2E3", id), Expect: expect, Body: fmt.Appendf(nil, `{"id":%q}`, id),
	}}
}

// appended sends a commit to whoever leads until it is known what became of it.
func (x *three) appended(ctx context.Context, c eventstore.Commit) (r eventstore.Stored, err error) {
	for ctx.Err() == nil {
		for _, s := range x.running() {
			if r, err = eventstore.AppendOne(ctx, s, c); !errors.Is(err, eventstore.ErrBusy) && !errors.Is(err, eventstore.ErrUnconfirmed) && !errors.Is(err, eventstore.ErrClosed) {
				return r, err
			}
		}
		time.Sleep(time.Millisecond)
	}
	return r, ctx.Err()
}

func (x *three) running() (all []*Store) {
	for _, s := range x.stores {
		if s != nil {
			all = append(all, s)
		}
	}
	return all
}

// same checks that all running nodes have the same so many records.
func (x *three) same(want int) {
	x.t.Helper()
	var first []eventstore.Stored
	for i, s := range x.stores {
		if s == nil {
			continue
		}
		x.until(fmt.Sprintf("node %s has %d records", nodeNames[i], want), func() bool { return int(s.Status().Position) >= want })
		var all []eventstore.Stored
		for r, err := range s.Scan(x.t.Context(), 0, eventstore.Filter{}) {
			if err != nil {
				x.t.Fatal(err)
			}
			all = append(all, r)
		}
		if len(all) != want {
			x.t.Errorf("node %s has %d records, want %d", nodeNames[i], len(all), want)
		}
		if first == nil {
			first = all
		}
		if !slices.EqualFunc(first, all, func(a, b eventstore.Stored) bool {
			return a.Commit == b.Commit && a.Position == b.Position && string(a.Body) == string(b.Body)
		}) {
			x.t.Errorf("node %s has other records", nodeNames[i])
		}
		if err := s.Verify(x.t.Context()); err != nil {
			x.t.Error(err)
		}
		a, aErr := x.running()[0].Tip()
		b, bErr := s.Tip()
		if a != b || aErr != nil || bErr != nil {
			x.t.Errorf("node %s ends at %v, another one at %v: %v, %v", nodeNames[i], b, a, bErr, aErr)
		}
	}
}

// write appends payments, each once, from some goroutines.
func (x *three) write(from, each, writers int) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), patienceOfTests)
	defer cancel()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range each {
				if _, err := x.appended(ctx, paymentCommit(from+w*each+n, 0)); err != nil {
					x.t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// Three nodes keep one log, whoever of them dies, also where one of them had a log before.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	x := startThree(t, 300)
	x.write(0, 50, 4)
	x.same(500)
	for round := range 3 {
		down := x.leader()
		if round == 2 {
			down = (down + 1) % 3
		}
		x.stop(down)
		x.write(1000+1000*round, 50, 4)
		x.same(700 + round*200)
		x.serve(down)
		x.open(down)
	}
	x.same(1100)
}

// All of LOG is lost while it is written to. Nothing that was acknowledged is.
func TestLOGLost(t *testing.T) {
	t.Parallel()
	x := startThree(t, 0)
	x.write(0, 50, 4)
	for i := range nodeNames {
		x.stop(i)
	}
	for i := range nodeNames {
		if err := os.RemoveAll(filepath.Join(x.options[i].StoreDir, "jetstream")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range nodeNames {
		x.serve(i)
		x.open(i)
	}
	x.write(1000, 50, 4)
	x.same(400)
}

// While the leadership goes from node to node, nothing is lost or done twice.
func TestYield(t *testing.T) {
	t.Parallel()
	x := startThree(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfTests)
	defer cancel()
	over := make(chan struct{})
	var written atomic.Int64
	var all sync.WaitGroup
	for w := range 3 {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				if _, err := x.appended(ctx, paymentCommit(10_000*w+n, 0)); err != nil {
					t.Error(err)
					return
				}
				written.Add(1)
			}
		})
	}
	for range 4 {
		from := x.leader()
		to := (from + 1) % 3
		began := time.Now()
		x.until("the leader yields", func() bool {
			err := x.stores[from].Yield(ctx, nodeNames[to])
			if err != nil {
				t.Logf("from %s to %s: %v", nodeNames[from], nodeNames[to], err)
				from = x.leader()
			}
			return err == nil
		})
		t.Logf("from %s to %s: %v", nodeNames[from], nodeNames[to], time.Since(began))
	}
	close(over)
	all.Wait()
	x.same(int(written.Load()))
}

// A leader whose clock is wrong has another one lead.
func TestClock(t *testing.T) {
	t.Parallel()
	x := startThree(t, 0)
	x.write(0, 1, 1)
	wrong := x.leader()
	x.ahead[wrong].Store(int64(-2 * time.Second))
	x.until("another node leads", func() bool {
		return slices.ContainsFunc(x.stores[:], func(s *Store) bool { return s != x.stores[wrong] && s.Status().Ready })
	})
	x.write(10, 1, 1)
	x.same(2)
}

// Peers that hear of two processes of one node in different orders refuse the same one.
func TestPeersAgreeWhoIsTheSecond(t *testing.T) {
	t.Parallel()
	for what, of := range map[string][2]process{
		"it began later":      {{1, "b"}, {2, "a"}},
		"they began together": {{1, "a"}, {1, "b"}},
		"the first is of a version that does not say it": {{0, "b"}, {1, "a"}},
	} {
		for _, order := range [][]int{{0, 1, 0, 1, 1, 0}, {1, 0, 1, 0, 0, 1}, {1, 1, 0, 1, 0}} {
			peer := &Store{askers: map[string]asker{}}
			met := false
			for _, i := range order {
				met = met || i == 0
				if got, want := peer.twice("a", of[i]), i == 1 && met; got != want {
					t.Errorf("%s, asking in the order %v: process %d is refused: %t, want %t", what, order, i, got, want)
				}
			}
		}
	}
}

// Of two processes that serve one node the second one to start stops, whatever is written
// meanwhile, and the first one goes on.
func TestServedTwice(t *testing.T) {
	t.Parallel()
	x := startThree(t, 0)
	x.write(0, 20, 4)
	node := (x.leader() + 1) % 3
	conf := x.config(node)
	conf.Path = filepath.Join(t.TempDir(), "copy.db")
	file, err := os.Create(conf.Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.stores[node].Backup(t.Context(), func(eventstore.Position, int64) (io.Writer, error) { return file, nil }); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Open(t.Context(), conf)
	if err == nil {
		err = second.Begin(x.conns[node])
	}
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	x.until("the second process stops", func() bool {
		x.write(1000, 1, 1) // the same one again and again
		return strings.Contains(second.Status().Stopped, "another process serves this node")
	})
	for _, s := range x.stores {
		if why := s.Status().Stopped; why != "" {
			t.Errorf("node %s stops: %s", s.Status().Name, why)
		}
	}
	x.write(2000, 20, 4)
	x.same(161)
}

// A follower that is about to stop is not made the leader from then on.
func TestFollowerWithdraws(t *testing.T) {
	t.Parallel()
	x := startThree(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfTests)
	defer cancel()
	leader := x.leader()
	s, follower := x.stores[leader], x.stores[(leader+1)%3]
	x.until("the follower could lead", func() bool {
		return slices.ContainsFunc(s.lastPeers(), func(p Status) bool { return p.Name == follower.config.Name && p.Silent+p.Unfit == "" })
	})
	if err := follower.Withdraw(ctx); err != nil {
		t.Error(err)
	}
	if err := s.Yield(ctx, follower.config.Name); err == nil || !strings.Contains(err.Error(), "it is being stopped") {
		t.Errorf("a node that is being stopped is made the leader: %v", err)
	}
	follower.watch()
	if why := follower.Status().Unfit; why == "" {
		t.Error("a node that is being stopped may lead again")
	}
}

// Where all three nodes are stopped together, the leader's last group is never decided. Whoever
// waits for it is told so, and the store can be closed.
func TestWithdrawAlone(t *testing.T) {
	t.Parallel()
	x := startThree(t, 0)
	leader := x.leader()
	s := x.stores[leader]
	told := make(chan error)
	go func() {
		var err error
		for i := 0; err == nil; i++ {
			_, err = eventstore.AppendOne(context.Background(), s, paymentCommit(i, 0))
		}
		told <- err
	}()
	var all sync.WaitGroup
	for i := range nodeNames {
		if i != leader {
			all.Go(func() { x.stop(i) })
		}
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := s.Withdraw(ctx); err == nil {
		t.Error("another node leads")
	}
	if err := <-told; !errors.Is(err, eventstore.ErrUnconfirmed) && !errors.Is(err, eventstore.ErrBusy) {
		t.Errorf("the answer is %v", err)
	}
	if _, err := eventstore.AppendOne(t.Context(), s, paymentCommit(1<<20, 0)); !errors.Is(err, eventstore.ErrClosed) && !errors.Is(err, eventstore.ErrBusy) {
		t.Errorf("the answer after it is %v", err)
	}
	x.close(leader)
}
