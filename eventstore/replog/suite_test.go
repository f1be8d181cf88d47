package replog

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/bolt/record"
	"payledger/eventstore/boltfile"
	"payledger/eventstore/storetest"
	"payledger/notifier/health/healthtest"
)

func TestMain(m *testing.M) {
	checks := "2"
	if long() {
		checks = "4"
	}
	_ = flag.Set("rapid.checks", checks) // before flags are parsed
	if flag.Parse(); !testing.Short() {  // the race detector has no time for many clusters at once
		healthtest.Overlap()
	}
	os.Exit(m.Run())
}

// The leader's store is a store like any other. All logs of the suite share three servers:
// each has an account of its own.
func TestStore(t *testing.T) {
	t.Parallel()
	shared := startShared(t)
	storetest.Run(t, func(t testing.TB) storetest.Log {
		if check := path.Base(t.Name()); !long() && (check == "busy" || check == "recent_ids") {
			t.Skip("it is the queue of bolt, and its ids, that thousands of commits fill: run with PAYLEDGER_LONG=1")
		}
		return shared.newLog(t)
	})
}

const accounts = 160 // of the shared servers; each log of the suite takes one

// shared is three servers with accounts.
type shared struct {
	servers []*natsserver.Server
	used    atomic.Int64
}

func startShared(t *testing.T) *shared {
	t.Helper()
	s := &shared{}
	for _, o := range serverOptions(t) {
		o.SyncAlways = false // nobody cuts the power here
		config := []byte("accounts {\n")
		for i := range accounts {
			config = fmt.Appendf(config, "L%d { jetstream: enabled, users: [{user: l%d, password: l}] }\n", i, i)
		}
		name := filepath.Join(t.TempDir(), "accounts.conf")
		if err := os.WriteFile(name, append(config, '}'), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := o.ProcessConfigFile(name); err != nil {
			t.Fatal(err)
		}
		server, err := natsserver.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		server.Start()
		t.Cleanup(func() {
			server.Shutdown()
			server.WaitForShutdown()
		})
		s.servers = append(s.servers, server)
	}
	for _, server := range s.servers {
		if !server.ReadyForConnections(patienceOfTests) {
			t.Fatal("a server does not start")
		}
	}
	for s.leaderless() && t.Context().Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	return s
}

func (s *shared) leaderless() bool {
	return !slices.ContainsFunc(s.servers, (*natsserver.Server).JetStreamIsLeader)
}

// underTest is a log on three nodes; the leader is under test.
type underTest struct {
	t      testing.TB
	dir    string
	conns  []*nats.Conn
	nodes  []*Store
	doors  []*httptest.Server
	disks  []*disk
	life   atomic.Int64
	opened func(node int)
	self   int // the node under test; -1: not known yet

	places map[eventstore.Position][]int64
	sizes  map[eventstore.Position]int
}

func (s *shared) newLog(t testing.TB) *underTest {
	t.Helper()
	u := &underTest{
		t: t, dir: t.TempDir(), self: -1, nodes: make([]*Store, len(nodeNames)), disks: make([]*disk, len(nodeNames)),
		places: make(map[eventstore.Position][]int64), sizes: make(map[eventstore.Position]int),
	}
	account := s.used.Add(1) - 1
	if account >= accounts {
		t.Fatal("too few accounts")
	}
	handlers := make([]atomic.Pointer[http.Handler], len(nodeNames))
	for i := range nodeNames {
		c, err := nats.Connect("", nats.InProcessServer(s.servers[i]), nats.UserInfo(fmt.Sprintf("l%d", account), "l"), nats.MaxReconnects(-1), nats.Timeout(patienceOfTests))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		u.conns = append(u.conns, c)
		if err := bolt.Init(u.path(i), domain.ID{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		u.doors = append(u.doors, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h := handlers[i].Load(); h != nil {
				(*h).ServeHTTP(w, r)
			}
		})))
		t.Cleanup(u.doors[i].Close)
	}
	u.opened = func(i int) {
		h := u.nodes[i].Handler()
		handlers[i].Store(&h)
	}
	t.Cleanup(func() {
		for i, n := range u.nodes {
			if i != u.self && n != nil {
				if err := n.Close(); err != nil {
					t.Errorf("closing node %s: %v", nodeNames[i], err)
				}
			}
		}
		_, _ = u.conns[0].Request("$JS.API.STREAM.DELETE."+StreamName, nil, publishTime)
	})
	return u
}

func (u *underTest) path(i int) string { return filepath.Join(u.dir, nodeNames[i]+".db") }

func (u *underTest) openNode(i int) {
	peers := map[string]string{}
	for j, name := range nodeNames {
		if j != i {
			peers[name] = u.doors[j].URL
		}
	}
	life := u.life.Add(1)
	s, err := Open(u.t.Context(), Config{
		Name: nodeNames[i], Peers: peers, Client: http.DefaultClient, Key: testKey(1), Path: u.path(i), Bolt: bolt.Options{MinFree: 1},
		NewID: func() string { return fmt.Sprintf("log%d-%d", life, u.life.Add(1)) }, Start: [8]byte{byte(life), byte(life >> 8)},
		LostAfter: 100 * time.Millisecond, Now: time.Now,
	})
	if err == nil {
		err = s.Begin(u.conns[i])
	}
	if err != nil {
		u.t.Fatalf("node %s: %v", nodeNames[i], err)
	}
	u.nodes[i], u.disks[i] = s, attach(u.t, s.Store)
	u.opened(i)
}

// Open opens the node under test, at first all of them, and has it lead.
func (u *underTest) Open() eventstore.Store {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfTests)
	defer cancel()
	if u.self >= 0 {
		u.openNode(u.self)
	} else {
		for i := range nodeNames {
			u.openNode(i)
		}
	}
	var refused error
	for ctx.Err() == nil {
		leader := slices.IndexFunc(u.nodes, func(s *Store) bool { return s.Status().Ready })
		if u.self < 0 {
			u.self = leader
		}
		// A node whose file is damaged where LOG has the record takes no part, and can be read.
		if u.self >= 0 && (leader == u.self || u.nodes[u.self].Status().Stopped != "") {
			return persistent{u.nodes[u.self], u}
		}
		if leader >= 0 {
			refused = u.nodes[leader].Yield(ctx, nodeNames[u.self]) // it is asked again
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, s := range u.nodes {
		u.t.Logf("%+v", s.Status())
	}
	u.t.Fatalf("node %d does not lead: %v", u.self, refused)
	return nil
}

// Verify includes that the other nodes have the same.
func (u *underTest) Verify(ctx context.Context, _ eventstore.Store) error {
	if err := u.nodes[u.self].Verify(ctx); err != nil {
		return err
	}
	tip, err := u.nodes[u.self].Tip()
	if err != nil {
		return err
	}
	for i, s := range u.nodes {
		other, err := s.Tip()
		for ; err == nil && other.Last < tip.Last && ctx.Err() == nil; other, err = s.Tip() {
			time.Sleep(time.Millisecond)
		}
		if err != nil || other != tip {
			return fmt.Errorf("node %s ends at %v, the leader at %v: %w", nodeNames[i], other, tip, err)
		}
	}
	return nil
}

// Shared implements storetest.Log.
func (u *underTest) Shared() bool { return false }

// Stall holds the group in the leader's file. It is in LOG by then.
func (u *underTest) Stall(eventstore.Store) (<-chan struct{}, func()) {
	st := &stall{held: make(chan struct{}), released: make(chan struct{})}
	u.disks[u.self].hold(st)
	return st.held, sync.OnceFunc(func() { close(st.released) })
}

// Waiting implements storetest.Log.
func (u *underTest) Waiting(eventstore.Store) int { return u.disks[u.self].waiting() }

// Interrupted implements storetest.Log: on a busy machine LOG elects another leader.
func (u *underTest) Interrupted() bool { return !u.nodes[u.self].Status().Ready }

// Faults are those of the own file: then LOG has the group, so that it is there after
// the next open. A fault of LOG is none of the store's: the same is published again.
func (u *underTest) Faults() []storetest.Fault {
	arm := func(meta, keep bool) func(eventstore.Store) {
		return func(eventstore.Store) { u.disks[u.self].fail(&fault{meta, keep}) }
	}
	return []storetest.Fault{
		{Name: "a page, lost", Persisted: true, Arm: arm(false, false)},
		{Name: "the meta page, lost", Persisted: true, Arm: arm(true, false)},
		{Name: "the meta page, kept", Persisted: true, Arm: arm(true, true)},
	}
}

// flips is how many bytes of a record are damaged in turn; the suite on bolt damages
// all of them.
const flips = 4

// Size implements storetest.Log.
func (u *underTest) Size(p eventstore.Position) int {
	if _, ok := u.sizes[p]; !ok {
		var value []byte
		for r, err := range u.nodes[u.self].Scan(u.t.Context(), p-1, eventstore.Filter{}) {
			if err != nil {
				u.t.Fatal(err)
			}
			value = record.Append(nil, &r)
			break
		}
		file, err := os.ReadFile(u.path(u.self))
		if err != nil {
			u.t.Fatal(err)
		}
		for at := 0; ; at++ {
			i := bytes.Index(file[at:], value)
			if i < 0 {
				break
			}
			at += i
			u.places[p] = append(u.places[p], int64(at))
		}
		u.sizes[p] = len(value)
	}
	return flips
}

// Flip damages the own file alone: what is damaged here is reported here.
func (u *underTest) Flip(p eventstore.Position, offset int) {
	f, err := os.OpenFile(u.path(u.self), os.O_RDWR, 0)
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, place := range u.places[p] {
		at := place + int64(offset*(u.sizes[p]-1)/(flips-1))
		var b [1]byte
		_, err := f.ReadAt(b[:], at)
		b[0] ^= 1 << (at % 8)
		_, written := f.WriteAt(b[:], at)
		if err := errors.Join(err, written); err != nil {
			u.t.Fatal(err)
		}
	}
}

// persistent does what the store's errors say: it sends a commit again whose fate is not
// known, or that came while LOG had another leader for a moment.
// On a busy machine LOG may have another leader for longer: then that one yields.
type persistent struct {
	*Store
	u *underTest
}

func (p persistent) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	results := p.Store.Append(ctx, commits...)
	for i := range results {
		for errors.Is(results[i].Err, eventstore.ErrUnconfirmed) || errors.Is(results[i].Err, ErrNotLeader) {
			time.Sleep(time.Millisecond)
			for _, s := range p.u.nodes {
				if s != p.Store && s.Status().Ready {
					_ = s.Yield(ctx, p.config.Name) // it is asked again
				}
			}
			results[i] = p.Store.Append(ctx, commits[i])[0]
		}
	}
	return results
}

// disk stands between bbolt and a node's file. bbolt writes through db.ops.writeAt,
// which is not exported and is replaced by reflection, as in the tests of bolt.
type disk struct {
	t        testing.TB
	waiting  func() int // commits in the store's queue
	metaLock *sync.Mutex
	meta     int64 // pages before this offset make the others count
	write    func([]byte, int64) (int, error)

	mu    sync.Mutex
	stall *stall
	fault *fault
}

// stall holds a group in a file.
type stall struct{ held, released chan struct{} }

type fault struct{ meta, keep bool }

func inside(t testing.TB, s *bolt.Store, name string) reflect.Value {
	t.Helper()
	return field(t, reflect.ValueOf(s).Elem(), name)
}

func field(t testing.TB, of reflect.Value, name string) reflect.Value {
	t.Helper()
	f := of.FieldByName(name)
	if !f.IsValid() {
		t.Fatalf("there is no field %s any more: find another place to look", name)
	}
	return f
}

func attach(t testing.TB, s *bolt.Store) *disk {
	t.Helper()
	db := (*(**boltfile.File)(unsafe.Pointer(inside(t, s, "file").UnsafeAddr()))).DB()
	of := reflect.ValueOf(db).Elem()
	queue := inside(t, s, "queue").Elem()
	mu, next := (*sync.Mutex)(unsafe.Pointer(field(t, queue, "mu").UnsafeAddr())), field(t, queue, "next")
	commits, _ := next.Type().Elem().FieldByName("commits")
	f := &disk{t: t, waiting: func() int {
		mu.Lock()
		defer mu.Unlock()
		return next.Elem().FieldByIndex(commits.Index).Len()
	}, metaLock: (*sync.Mutex)(unsafe.Pointer(field(t, of, "metalock").UnsafeAddr())), meta: 2 * int64(db.Info().PageSize)}
	at := (*func([]byte, int64) (int, error))(unsafe.Pointer(field(t, field(t, of, "ops"), "writeAt").UnsafeAddr()))
	f.write, *at = *at, f.writeAt
	return f
}

func (f *disk) hold(st *stall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stall = st
}

func (f *disk) fail(x *fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = x
}

func (f *disk) writeAt(b []byte, at int64) (int, error) {
	meta := at < f.meta
	f.mu.Lock()
	x, st := f.fault, f.stall
	if meta {
		f.stall = nil
	}
	f.mu.Unlock()
	if x != nil && x.meta == meta {
		if x.keep {
			_, _ = f.write(b, at)
		}
		return 0, errors.New("injected")
	}
	n, err := f.write(b, at)
	if meta && st != nil {
		// bbolt holds this lock for the write and not for the sync after it.
		f.metaLock.Unlock()
		close(st.held)
		<-st.released
		f.metaLock.Lock()
	}
	return n, err
}
