package cluster

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster/forms"
	"payledger/eventstore/cluster/founding"
)

// Config is one node's part in a cluster.
type Config struct {
	// Name is the node's. Peers are the other nodes'.
	Name  string
	Peers []string
	Path  string       // of the event log
	Bolt  bolt.Options // Replicate, Replicated, Admit and Readable are set by Open
	Conn  *nats.Conn   // to the node's own server, which has the node's name; Open does not close it

	// Found makes a LOG that begins with what the file has, if there is none yet. One
	// node of a new cluster does that.
	Found bool
	LOG   domain.ID // the id of the cluster's LOG

	// Prepare is called before LOG is made, until it succeeds: what it makes is there for
	// whoever finds LOG. JetStream makes a stream only while all servers of it are up, so
	// what is made later may never come to be if a node is lost at once. May be nil.
	Prepare func(ctx context.Context, ledger domain.ID) error

	Start [8]byte // random: it differs from that of every other start of any node
	Now   func() time.Time

	Program forms.Program // the node's

	// Report is called with errors that do not end the node's part. From any goroutine.
	Report func(error)
}

// Store is an event log on three nodes. Append, Last, LastOf, Load, LoadAfter and
// Claimed are true for the whole cluster; Scan, Follow and Recent read this node's
// file. A read that cannot be true in time fails with eventstore.ErrBusy, a commit
// whose fate is not known with eventstore.ErrUnconfirmed.
type Store struct {
	*bolt.Store

	name   nodeName
	writer domain.ID
	peers  []string
	prefix string // of the subjects of nodes
	nc     *nats.Conn
	js     jetstream.JetStream
	report func(error)
	now    func() time.Time
	began  time.Time

	closing      context.Context //nolint:containedctx // until Close
	beginClosing context.CancelFunc
	appending    sync.WaitGroup  // guarded by mu until closing
	ctx          context.Context //nolint:containedctx // that of the goroutines, until no Append is under way
	end          context.CancelFunc
	running      sync.WaitGroup

	missing atomic.Pointer[time.Time] // since when the servers have said nothing but that there is no LOG

	subs                       []*nats.Subscription
	appends, fetches, leavings chan struct{}    // a place for each request that is served
	decision                   chan *bolt.Group // of the staged group; nil: taken back

	// For Status.
	progress             atomic.Pointer[progress]
	log                  atomic.Pointer[LOG]
	readAt               atomic.Int64 // Unix ms
	fetched, republished atomic.Uint64
	trouble              atomic.Pointer[trouble]
	stopped              atomic.Pointer[error]
	withdrawn            atomic.Bool // nobody hands over to this node
	unable               atomic.Pointer[string]
	ahead                atomic.Int64              // Status.AheadMillis
	right                atomic.Pointer[time.Time] // when this node's clock last agreed with another one's; nil: not known
	doubted              atomic.Pointer[doubted]

	node *node // of the loop

	forms *forms.Book

	turns   atomic.Uint64 // counts the questions for LOG
	hearing sync.Mutex
	turn    uint64 // of the newest answer

	mu     sync.Mutex
	events []event
	wake   chan struct{}
	last   uint64             // id of a read or a call
	next   uint64             // the slot that the feed shows next
	rewind context.CancelFunc // lets the feed begin there anew
	reads  map[uint64]chan error
	calls  map[uint64]*waitingCall
}

// Open opens the node's event log and begins to take part. If it fails, the log is
// closed.
func Open(ctx context.Context, c Config) (_ *Store, err error) {
	s := &Store{
		name: nodeName(c.Name), peers: c.Peers, nc: c.Conn, now: c.Now, began: c.Now(),
		appends: make(chan struct{}, maxAppends), fetches: make(chan struct{}, maxFetches), leavings: make(chan struct{}, 1),
		decision: make(chan *bolt.Group, 1), wake: make(chan struct{}, 1),
		reads: make(map[uint64]chan error), calls: make(map[uint64]*waitingCall),
		forms: forms.New(c.Name, c.Program, c.Peers),
	}
	s.report = func(err error) {
		s.trouble.Store(&trouble{err, s.now()})
		if c.Report != nil {
			c.Report(err)
		}
	}
	copy(s.writer[:], c.Name)
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.closing, s.beginClosing = context.WithCancel(s.ctx)
	c.Bolt.Replicate = s.replicate
	c.Bolt.Admit, c.Bolt.Readable = s.admit, s.forms.Readable
	c.Bolt.Replicated = func() { s.post(committed{}) }
	if s.Store, err = bolt.Open(c.Path, c.Bolt); err != nil {
		s.end()
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	if s.js, err = jetstream.New(c.Conn); err != nil {
		return nil, err
	}
	s.prefix = founding.Nodes(c.LOG)
	if r, err := s.Replica(); err != nil || !r.Heir.IsZero() {
		return nil, cmp.Or(err, error(&EndedError{HeirName(r.Heir)}))
	}
	if err := s.on(founding.Verb, func(m *nats.Msg) { s.serveBeside(s.fetches, m, s.standing) }); err != nil {
		return nil, err
	}
	b, err := s.findLOG(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := founding.Join(s.Store, b); err != nil {
		return nil, err
	}
	r, err := s.Replica()
	if err != nil {
		return nil, err
	}
	s.prefix = founding.Nodes(b.LOG)
	s.progress.Store(&progress{group: r.Applied, newest: r.Applied})
	s.next, s.rewind = max(r.Applied, 1), func() {}
	var peers []nodeName
	for _, p := range c.Peers {
		peers = append(peers, nodeName(p))
	}
	s.node = newNode(s.name, peers, c.Start, r.Applied)
	if err := s.listen(); err != nil {
		return nil, err
	}
	s.running.Go(s.loop)
	s.running.Go(s.feed)
	s.running.Go(func() { s.every(tickEvery, func() { s.post(tick{}) }) })
	s.running.Go(func() { s.every(hearEvery, func() { s.beside(s.hear) }) })
	s.running.Go(func() { s.every(trimEvery, s.trim) })
	s.running.Go(func() { s.every(fitEvery, s.examine) })
	return s, nil
}

// Close ends Follow, waits for the Appends under way, ends the node's part and closes
// its event log. Closing again answers the same.
func (s *Store) Close() error {
	s.mu.Lock()
	s.beginClosing()
	s.mu.Unlock()
	s.appending.Wait()
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	for _, sub := range s.subs {
		_ = sub.Unsubscribe()
	}
	s.running.Wait()
	return s.Store.Close()
}

// Stop ends the node's part for a difference between its file and those of others that
// the groups of LOG do not show. If the node leads LOG, another one is asked to.
func (s *Store) Stop(why error) { s.post(mismatched{why}) }

// every does something from time to time until Close.
func (s *Store) every(period time.Duration, do func()) {
	for s.ctx.Err() == nil {
		do()
		s.sleep(period)
	}
}

func (s *Store) sleep(d time.Duration) {
	select {
	case <-s.ctx.Done():
	case <-time.After(d):
	}
}

// beside runs something beside the loop, unless the store is being closed.
func (s *Store) beside(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() == nil {
		s.running.Go(do)
	}
}
