package clusternode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/httpapi/peer"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/health/healthtest"
)

const patience = healthtest.Patience

// ledger is what stands behind a node's public address in these tests: POST /ID records a
// payment, GET tells how many there are.
func ledger(n **Node) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := peer.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		store := (*n).Store
		if r.Method == http.MethodGet {
			last, err := store.Last(r.Context())
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprint(w, last)
			return
		}
		recorded, err := eventstore.AppendOne(r.Context(), store, payment(strings.TrimPrefix(r.URL.Path, "/")))
		switch {
		case errors.Is(err, eventstore.ErrBusy), errors.Is(err, eventstore.ErrUnconfirmed):
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			fmt.Fprint(w, recorded.Position)
		}
	})
}

// payment is the commit of a payment by its number: sent again, it is the same one.
func payment(number string) eventstore.Commit {
	id := domain.ID{1, 161, 248, 116}
	copy(id[6:], fmt.Sprintf("%010s", number))
	return eventstore.Commit{ID: id, Record: eventstore.Record{Stream: eventstore.PaymentStream("prj_01M7W78FJBM8T4R7B5N0C1D2E3", id), Body: []byte(`{}`)}}
}

type three struct {
	t      *testing.T
	dirs   [3]datadir.Dir
	nodes  [3]*Node
	public [3]*httptest.Server
	behind [3]atomic.Pointer[http.Handler]
}

func (x *three) start(i int) {
	x.t.Helper()
	c, err := Load(x.dirs[i])
	if err != nil {
		x.t.Fatal(err)
	}
	n, err := c.Open(x.t.Context(), Config{
		Dir: x.dirs[i], Bolt: bolt.Options{MinFree: 1}, Log: zerolog.New(zerolog.NewTestWriter(x.t)),
	})
	if err == nil {
		err = n.Start(x.t.Context(), embedded.Config{Log: zerolog.New(zerolog.NewTestWriter(x.t))})
	}
	if err != nil {
		x.t.Fatalf("node %s: %v", c.Node, err)
	}
	x.nodes[i] = n
	h := n.Port.Forward(peer.Public, ledger(&x.nodes[i]), func(string) bool { return false })
	n.ServePeers()
	x.behind[i].Store(&h)
}

func (x *three) stop(i int) {
	if n := x.nodes[i]; n != nil {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := n.Store.Withdraw(ctx)
		x.t.Logf("node %s withdraws in %v: %v", n.Node, time.Since(began), err) // at the end nobody is left
		x.behind[i].Store(nil)
		if err := n.Close(); err != nil {
			x.t.Errorf("closing node %d: %v", i, err)
		}
	}
	x.nodes[i] = nil
}

// ask sends a request to a node until it is answered.
func (x *three) ask(ctx context.Context, i int, method, path string) (n int, err error) {
	for {
		r, err := http.NewRequestWithContext(ctx, method, x.public[i].URL+path, http.NoBody)
		if err != nil {
			return 0, err
		}
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		b, err := io.ReadAll(reply.Body)
		if err := errors.Join(err, reply.Body.Close()); err != nil {
			return 0, err
		}
		if reply.StatusCode == http.StatusOK {
			_, err := fmt.Sscan(string(b), &n)
			return n, err
		}
		if reply.StatusCode != http.StatusServiceUnavailable {
			return 0, fmt.Errorf("%s: %s", reply.Status, b)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// startThree makes a cluster of a directory that has payments already.
func startThree(t *testing.T, before int) *three {
	t.Helper()
	x := &three{t: t}
	var nodes []string
	for i, name := range []string{"a", "b", "c"} {
		x.dirs[i] = datadir.Dir(filepath.Join(t.TempDir(), name))
		nodes = append(nodes, name+"="+healthtest.FreeAddress(t))
		x.public[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h := x.behind[i].Load(); h != nil {
				(*h).ServeHTTP(w, r)
				return
			}
			http.Error(w, "down", http.StatusServiceUnavailable)
		}))
	}
	t.Cleanup(func() {
		for i := range x.nodes {
			x.stop(i)
			x.public[i].Close()
		}
	})
	if err := x.dirs[0].Initialise(); err != nil {
		t.Fatal(err)
	}
	alone, err := x.dirs[0].Open(bolt.Options{MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range before {
		if _, err := eventstore.AppendOne(t.Context(), alone, payment(fmt.Sprint(900_000+i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	all, err := ParseNodes(strings.Join(nodes, ","))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Init(t.Context(), x.dirs[0], all); err != nil {
		t.Fatal(err)
	}
	x.start(0)
	key, err := ReadKey(x.dirs[0].ClusterKey())
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"b", "c"} {
		var reached eventstore.Position
		c, err := Join(t.Context(), x.dirs[i+1], all[0].Address, key, name, func(p, _ eventstore.Position) { reached = p })
		if err != nil || c.Node != name || int(reached) != before {
			t.Fatalf("node %s joins and comes to position %d: %v", name, reached, err)
		}
		x.start(i + 1)
	}
	return x
}

func (x *three) leader() int {
	x.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if i := slices.IndexFunc(x.nodes[:], func(n *Node) bool {
			if n == nil {
				return false
			}
			_, here := n.Leader()
			return here
		}); i >= 0 {
			return i
		}
	}
	x.t.Fatal("nobody leads")
	return 0
}

// Every node answers every request, and what one has answered any other one shows, while
// nodes are stopped one after the other, and one loses its log.
func TestCluster(t *testing.T) {
	t.Parallel()
	x := startThree(t, 1000)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last, sent atomic.Int64
	last.Store(1000)
	load := func(each int, up ...int) {
		var all sync.WaitGroup
		began := time.Now()
		for w := range 6 {
			all.Go(func() {
				for n := range each {
					i := up[(w+n)%len(up)]
					if w%2 == 0 {
						at, err := x.ask(ctx, i, http.MethodPost, fmt.Sprintf("/%d", sent.Add(1)))
						if err != nil {
							t.Error(err)
							return
						}
						for seen := last.Load(); int64(at) > seen && !last.CompareAndSwap(seen, int64(at)); seen = last.Load() {
						}
						continue
					}
					want := last.Load()
					if got, err := x.ask(ctx, i, http.MethodGet, "/"); err != nil || int64(got) < want {
						t.Errorf("node %d has %d payments after %d were recorded: %v", i, got, want, err)
					}
				}
			})
		}
		all.Wait()
		t.Logf("%d requests at %v: %v", 6*each, up, time.Since(began))
	}
	load(50, 0, 1, 2)
	for range 2 {
		down := x.leader()
		x.stop(down)
		load(50, (down+1)%3, (down+2)%3)
		x.start(down)
		load(20, 0, 1, 2)
	}
	lost := (x.leader() + 1) % 3
	x.stop(lost)
	if err := errors.Join(os.Remove(x.dirs[lost].Ledger()), os.RemoveAll(x.dirs[lost].Claims())); err != nil {
		t.Fatal(err)
	}
	load(20, (lost+1)%3, (lost+2)%3)
	x.start(lost)
	load(20, 0, 1, 2)
	want := 1000 + sent.Load()
	if last.Load() != want {
		t.Errorf("%d payments were recorded of %d", last.Load(), want)
	}
	tip := bolt.Tip{}
	for i, n := range x.nodes {
		for {
			own, err := n.Store.Tip()
			if err != nil {
				t.Fatal(err)
			}
			if int64(own.Last) >= want {
				if tip == (bolt.Tip{}) {
					tip = own
				}
				if own != tip {
					t.Errorf("node %d ends at %v, another one at %v", i, own, tip)
				}
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("node %d has come to %v only: %+v", i, own, n.Store.Status())
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := n.Store.Verify(ctx); err != nil {
			t.Error(err)
		}
	}
}

// The directory of a node that has stopped goes on alone with all that it has, once it is told
// so and no other node runs.
func TestLeave(t *testing.T) {
	t.Parallel()
	x := startThree(t, 10)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if n, err := x.ask(ctx, 1, http.MethodPost, "/1"); n != 11 || err != nil {
		t.Fatal(n, err)
	}
	alone := x.leader()
	x.stop(alone)
	if _, err := Leave(ctx, x.dirs[alone], nil); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("a node leaves while others run: %v", err)
	}
	for i := range x.nodes {
		if i != alone {
			x.stop(i)
		}
	}
	if _, err := x.dirs[alone].Open(bolt.Options{MinFree: 1}); err == nil {
		t.Error("a node's directory is served alone by mistake")
	}
	last, err := Leave(ctx, x.dirs[alone], nil)
	if last != 11 || err != nil || !x.dirs[alone].Clustered() {
		t.Errorf("it has come to position %d: %v", last, err)
	}
	if _, err := Leave(ctx, x.dirs[alone], new(eventstore.Position(12))); err == nil || !x.dirs[alone].Clustered() {
		t.Errorf("a directory leaves that another one is ahead of: %v", err)
	}
	if _, err := Leave(ctx, x.dirs[alone], &last); err != nil {
		t.Error(err)
	}
	store, err := x.dirs[alone].Open(bolt.Options{MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := eventstore.AppendOne(ctx, store, payment("2")); r.Position != 12 || err != nil {
		t.Errorf("alone it goes on at position %d: %v", r.Position, err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Leave(ctx, x.dirs[alone], nil); err == nil {
		t.Error("a directory that is alone leaves")
	}
}

// What cannot be a cluster's is refused, with what to do.
func TestFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a=h:1,b=h:2":                 "2 nodes: a cluster has 3",
		"a=h:1,b=h:2,c=h:3,d=h:4":     "4 nodes",
		"a=h:1,a=h:2,c=h:3":           "a name and an address of its own",
		"a=h:1,b=h:1,c=h:3":           "a name and an address of its own",
		"A=h:1,b=h:2,c=h:3":           "small letters",
		"a=h,b=h:2,c=h:3":             "want NAME=HOST:PORT",
		"a=h:0,b=h:2,c=h:3":           "want NAME=HOST:PORT",
		"a=:1,b=h:2,c=h:3":            "want NAME=HOST:PORT",
		"a=h:99999,b=h:2,c=h:3":       "want NAME=HOST:PORT",
		"aaaaaaaaaaaaaaaaa=h:1,b=h:2": "up to 16",
	} {
		if _, err := ParseNodes(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	d := datadir.Dir(filepath.Join(t.TempDir(), "d"))
	if err := d.Initialise(); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(d); c != nil || err != nil {
		t.Errorf("a directory that is alone: %v, %v", c, err)
	}
	nodes, err := ParseNodes("a=h:1,b=h:2,c=h:3")
	if err != nil {
		t.Fatal(err)
	}
	made, err := Init(t.Context(), d, nodes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Init(t.Context(), d, nodes); err == nil {
		t.Error("a node becomes the first one of another cluster")
	}
	for _, file := range []string{d.Cluster(), d.ClusterKey()} {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	got, err := Load(d)
	if err != nil || got.Node != "a" || got.Own() != "h:1" || len(got.Peers()) != 2 || got.Ledger != made.Ledger || string(got.key) != string(made.key) {
		t.Errorf("%+v, want %+v: %v", got, made, err)
	}
	spoil := func(what, file string, change func(string) string) {
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(change(string(before))), 0o600); err != nil {
			t.Fatal(err)
		}
		switch _, err := Load(d); {
		case err == nil:
			t.Errorf("%s: it is loaded", what)
		case strings.Contains(err.Error(), "newer version") != (what == "a newer format"):
			t.Errorf("%s: %v", what, err)
		}
		if err := os.WriteFile(file, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoil("a short key", d.ClusterKey(), func(s string) string { return s[2:] })
	spoil("a newer format", d.Cluster(), func(s string) string { return strings.Replace(s, "cluster 2", "cluster 3", 1) })
	spoil("an older format", d.Cluster(), func(s string) string { return strings.Replace(s, "cluster 2", "cluster 1", 1) })
	spoil("half of it", d.Cluster(), func(s string) string { return s[:len(s)/2] })
	spoil("no such node", d.Cluster(), func(s string) string { return strings.Replace(s, `"node": "a"`, `"node": "x"`, 1) })
}
