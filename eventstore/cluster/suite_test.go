package cluster

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
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

func long() bool { return os.Getenv("PAYLEDGER_LONG") != "" }

// A store on three nodes is a store like any other, on the sequencer and through a
// follower. All logs of the suite share three servers: each has an account of its own.
func TestStore(t *testing.T) {
	t.Parallel()
	shared := startShared(t)
	for role, behind := range map[string]int{"sequencer": 0, "follower": 1} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t testing.TB) storetest.Log {
				if check := path.Base(t.Name()); !long() && (check == "busy" || check == "recent_ids") {
					t.Skip("it is the queue of bolt, and its ids, that thousands of commits fill: run with PAYLEDGER_LONG=1")
				}
				return shared.newLog(t, behind)
			})
		})
	}
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

// clock runs until it is stopped, and goes on from there. It shows a year that no id of
// the suite is ahead of.
type clock struct {
	mu      sync.Mutex
	stops   int
	since   time.Time // when it was stopped
	stopped time.Duration
	began   time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now()
	if c.stops > 0 {
		at = c.since
	}
	return time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC).Add(at.Sub(c.began) - c.stopped)
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stops++; c.stops == 1 {
		c.since = time.Now()
	}
}

func (c *clock) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stops--; c.stops == 0 {
		c.stopped += time.Since(c.since)
	}
}

// underTest is a log on three nodes. One of them is under test: the sequencer, or
// another node. If the sequencer changes meanwhile, the suite holds all the same.
type underTest struct {
	t      testing.TB
	dir    string
	clock  *clock
	conns  []*nats.Conn
	nodes  []*Store
	disks  []*disk
	self   int // the node under test; -1: not known yet
	behind int // its distance from the sequencer

	places map[eventstore.Position][]int64
	sizes  map[eventstore.Position]int
}

func (s *shared) newLog(t testing.TB, behind int) *underTest {
	t.Helper()
	u := &underTest{
		t: t, dir: t.TempDir(), clock: &clock{began: time.Now()}, self: -1, behind: behind,
		nodes: make([]*Store, len(names)), disks: make([]*disk, len(names)),
		places: make(map[eventstore.Position][]int64), sizes: make(map[eventstore.Position]int),
	}
	account := s.used.Add(1) - 1
	if account >= accounts {
		t.Fatal("too few accounts")
	}
	for i := range names {
		c, err := nats.Connect("", nats.InProcessServer(s.servers[i]), nats.UserInfo(fmt.Sprintf("l%d", account), "l"), nats.MaxReconnects(-1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		u.conns = append(u.conns, c)
		if err := bolt.Init(u.path(i), domain.ID{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for i, n := range u.nodes {
			if i != u.self && n != nil {
				if err := n.Close(); err != nil {
					t.Errorf("closing node %s: %v", names[i], err)
				}
			}
		}
		_, _ = u.conns[0].Request("$JS.API.STREAM.DELETE."+StreamName, nil, publishTime)
	})
	return u
}

func (u *underTest) path(i int) string { return filepath.Join(u.dir, names[i]+".db") }

func (u *underTest) openNode(i int) {
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfTests)
	defer cancel()
	s, err := Open(ctx, Config{
		Name: names[i], Peers: slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == names[i] }),
		Path: u.path(i), Bolt: bolt.Options{MinFree: 1}, Conn: u.conns[i], Found: i == 0, LOG: domain.ID{9},
		Start: [8]byte{byte(i), byte(time.Now().UnixNano()), byte(time.Now().UnixNano() >> 8), byte(time.Now().UnixNano() >> 16)}, Now: u.clock.now,
	})
	if err != nil {
		u.t.Errorf("node %s: %v", names[i], err)
		return
	}
	u.nodes[i], u.disks[i] = s, attach(u.t, s.Store)
}

// Open opens the node under test, at first all of them.
func (u *underTest) Open() eventstore.Store {
	u.t.Helper()
	if u.self >= 0 {
		u.openNode(u.self)
	} else {
		var all sync.WaitGroup
		for i := range names {
			all.Go(func() { u.openNode(i) })
		}
		all.Wait()
		if !u.t.Failed() {
			u.self = (u.sequencer() + u.behind) % len(names)
		}
	}
	if u.t.Failed() {
		u.t.FailNow()
	}
	// What LOG has is in the file before the suite looks there.
	s := persistent{u.nodes[u.self]}
	if _, err := s.Last(u.t.Context()); err != nil {
		u.t.Fatal(err)
	}
	return s
}

func (u *underTest) sequencer() int {
	for u.t.Context().Err() == nil {
		for i, s := range u.nodes {
			if s != nil && s.progress.Load().ready {
				return i
			}
		}
		time.Sleep(time.Millisecond)
	}
	u.t.Fatal("nobody sequences")
	return 0
}

// Verify includes that the other nodes have the same.
func (u *underTest) Verify(ctx context.Context, _ eventstore.Store) error {
	if err := u.nodes[u.self].Verify(ctx); err != nil {
		return err
	}
	var first []eventstore.Stored
	for i, s := range u.nodes {
		p := persistent{s}
		if _, err := p.Last(ctx); err != nil {
			return err
		}
		var all []eventstore.Stored
		for r, err := range s.Scan(ctx, 0, eventstore.Filter{}) {
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		if i == 0 {
			first = all
		}
		if !slices.EqualFunc(first, all, func(a, b eventstore.Stored) bool {
			return a.Commit == b.Commit && a.Position == b.Position && bytes.Equal(a.Body, b.Body)
		}) {
			return fmt.Errorf("node %s has other records than node %s", names[i], names[0])
		}
	}
	return nil
}

// Shared implements storetest.Log.
func (u *underTest) Shared() bool { return true }

// Stall holds the group in the file of the sequencer, so that it is not answered, and in
// that of the node under test, so that it cannot be seen there: it is in LOG by then.
// The nodes' clocks stop meanwhile: nobody loses patience.
func (u *underTest) Stall(eventstore.Store) (<-chan struct{}, func()) {
	st := &stall{held: make(chan struct{}), released: make(chan struct{})}
	for i := range map[int]bool{u.self: true, u.sequencer(): true} {
		st.missing++
		u.disks[i].hold(st)
	}
	st.arrived = u.clock.stop
	return st.held, sync.OnceFunc(func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		close(st.released)
		if st.missing == 0 {
			u.clock.run()
		}
		st.missing = -1
	})
}

// Waiting looks into the queue of the sequencer: nobody else needs to know.
func (u *underTest) Waiting(eventstore.Store) int {
	return u.disks[u.sequencer()].waiting()
}

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

// persistent does what the store's errors say: it asks again for a read that could not
// be true in time, and sends a commit again whose fate is not known.
type persistent struct{ *Store }

func (p persistent) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	results := p.Store.Append(ctx, commits...)
	for i := range results {
		for errors.Is(results[i].Err, eventstore.ErrUnconfirmed) {
			results[i] = p.Store.Append(ctx, commits[i])[0]
		}
	}
	return results
}

func untilTrue[T any](read func() (T, error)) (r T, err error) {
	for range 60 {
		if r, err = read(); !errors.Is(err, eventstore.ErrBusy) {
			break
		}
	}
	return r, err
}

func (p persistent) Last(ctx context.Context) (eventstore.Position, error) {
	return untilTrue(func() (eventstore.Position, error) { return p.Store.Last(ctx) })
}

func (p persistent) LastOf(ctx context.Context, f eventstore.Filter) (eventstore.Position, error) {
	return untilTrue(func() (eventstore.Position, error) { return p.Store.LastOf(ctx, f) })
}

func (p persistent) Claimed(ctx context.Context, project string, key domain.Digest) (eventstore.Stored, bool, error) {
	type found struct {
		eventstore.Stored
		ok bool
	}
	r, err := untilTrue(func() (found, error) {
		r, ok, err := p.Store.Claimed(ctx, project, key)
		return found{r, ok}, err
	})
	return r.Stored, r.ok, err
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

// stall holds a group in one or two files.
type stall struct {
	mu             sync.Mutex
	missing        int // files that it has not come to; -1: it was released
	held, released chan struct{}
	arrived        func()
}

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
		st.hold()
		f.metaLock.Lock()
	}
	return n, err
}

func (st *stall) hold() {
	st.mu.Lock()
	if st.missing--; st.missing == 0 {
		st.arrived()
		close(st.held)
	}
	st.mu.Unlock()
	<-st.released
}
