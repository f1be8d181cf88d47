package cluster

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// Config is one node's part in a cluster.
type Config struct {
	// Name is the node's, and that of its NATS server. Peers are the other nodes'.
	Name  string
	Peers []string
	Path  string       // of the event log
	Bolt  bolt.Options // Replicate and Replicated are set by Open
	Conn  *nats.Conn   // to the node's own server; Open does not close it

	// Found makes a LOG that begins with what the file has, if there is none yet. One
	// node of a new cluster does that.
	Found bool
	LOG   domain.ID // the id of the LOG to be founded
	Start [8]byte   // random: it differs from that of every other start of any node
	Now   func() time.Time

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

	ctx      context.Context //nolint:containedctx // that of the goroutines, until Close
	end      context.CancelFunc
	running  sync.WaitGroup
	subs     []*nats.Subscription
	number   atomic.Uint64 // of the last group that the file has, as the machine counts
	leader   atomic.Value  // nodeName
	leading  atomic.Bool
	ready    atomic.Bool
	stopped  atomic.Pointer[error]
	decision chan *bolt.Group // of the staged group; nil: taken back

	node *node // of the loop

	mu     sync.Mutex
	events []event
	wake   chan struct{}
	last   uint64 // id of a read or a call
	reads  map[uint64]chan error
	calls  map[uint64]*waitingCall
}

// waitingCall is an Append that is on its way. Commits that have an answer leave it.
type waitingCall struct {
	ctx     context.Context //nolint:containedctx // the caller's
	commits []eventstore.Commit
	places  []int // of the commits among the results
	results []eventstore.Appended
	done    chan struct{}
}

// errTakenBack is what the commits of a group are answered with that was taken back.
// They are sent again.
var errTakenBack = errors.New("the group was taken back")

// Open opens the node's event log and begins to take part.
func Open(ctx context.Context, c Config) (_ *Store, err error) {
	s := &Store{
		name: nodeName(c.Name), peers: c.Peers, nc: c.Conn, report: c.Report, now: c.Now, began: c.Now(),
		decision: make(chan *bolt.Group, 1), wake: make(chan struct{}, 1),
		reads: make(map[uint64]chan error), calls: make(map[uint64]*waitingCall),
	}
	if s.report == nil {
		s.report = func(error) {}
	}
	copy(s.writer[:], c.Name)
	s.leader.Store(nodeName(""))
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	c.Bolt.Replicate = s.replicate
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
	b, err := s.findLOG(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := join(s.Store, b); err != nil {
		return nil, err
	}
	r, err := s.Replica()
	if err != nil {
		return nil, err
	}
	s.prefix = "payledger.node." + b.log.String() + "."
	s.number.Store(r.Applied)
	s.node = newNode(s.name, c.Start, r.Applied)
	if err := s.listen(); err != nil {
		return nil, err
	}
	s.running.Go(s.loop)
	s.running.Go(s.feed)
	s.running.Go(func() { s.every(100*time.Millisecond, func() { s.post(tick{}) }) })
	s.running.Go(func() { s.every(250*time.Millisecond, s.hear) })
	s.running.Go(func() { s.every(trimEvery, s.trim) })
	return s, nil
}

// findLOG waits for LOG, or founds it.
func (s *Store) findLOG(ctx context.Context, c Config) (base, error) {
	r, err := s.Replica()
	if err != nil {
		return base{}, err
	}
	try := func() (jetstream.Stream, error) {
		ctx, cancel := context.WithTimeout(ctx, publishTime)
		defer cancel()
		stream, err := s.js.Stream(ctx, logStream)
		if errors.Is(err, jetstream.ErrStreamNotFound) && c.Found && r.Log.IsZero() {
			b := base{s.LogID(), c.LOG, r.Last, fmt.Sprintf("%x", r.Sum)}
			return s.js.CreateStream(ctx, b.config(replicas))
		}
		return stream, err
	}
	for {
		stream, err := try()
		if err == nil {
			return baseOf(stream.CachedInfo().Config)
		}
		s.report(fmt.Errorf("waiting for LOG: %w", err))
		select {
		case <-ctx.Done():
			return base{}, errors.Join(ctx.Err(), err)
		case <-time.After(retryAfter):
		}
	}
}

// Status is what a node knows of itself.
type Status struct {
	Leader   string // the sequencer, as far as known
	Leading  bool   // it is this node
	Ready    bool   // and it has LOG's end
	Group    uint64 // the last group that the file has
	Position eventstore.Position
	Stopped  error // why the node takes no part any more; nil: it does
}

// Status is the node's.
func (s *Store) Status() Status {
	leader, _ := s.leader.Load().(nodeName)
	last, _ := s.Store.Last(s.ctx)
	st := Status{Leader: string(leader), Leading: s.leading.Load(), Ready: s.ready.Load(), Group: s.number.Load(), Position: last}
	if why := s.stopped.Load(); why != nil {
		st.Stopped = *why
	}
	return st
}

// Close ends the node's part and closes its event log.
func (s *Store) Close() error {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	for _, sub := range s.subs {
		_ = sub.Unsubscribe()
	}
	s.running.Wait()
	s.mu.Lock()
	for id, r := range s.reads {
		delete(s.reads, id)
		r <- eventstore.ErrClosed
	}
	for id, c := range s.calls {
		delete(s.calls, id)
		c.fail(eventstore.ErrClosed)
	}
	s.mu.Unlock()
	return s.Store.Close()
}

// replicate is bolt's hook: it waits for the machine's decision.
func (s *Store) replicate(g *bolt.Group) error {
	g.Writer, g.At = s.writer, s.now().UnixMilli()
	s.post(staged{g})
	select {
	case decided := <-s.decision:
		if decided == nil {
			return errTakenBack
		}
		return nil
	case <-s.ctx.Done():
		return eventstore.ErrClosed
	}
}

// Append implements eventstore.Store.
func (s *Store) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	results := make([]eventstore.Appended, len(commits))
	part := &waitingCall{}
	size := 0
	flush := func() {
		if len(part.commits) > 0 {
			s.call(ctx, part)
		}
		part, size = &waitingCall{}, 0
	}
	var last eventstore.Position
	for i, c := range commits {
		if results[i].Err = cmp.Or(ctx.Err(), c.Validate()); results[i].Err != nil {
			continue
		}
		if size += len(c.Record.Body); len(part.commits) == bolt.MaxGroupCommits || (size > bolt.MaxGroupBytes && len(part.commits) > 0) {
			flush()
			size = len(c.Record.Body)
		}
		part.commits, part.places, part.results = append(part.commits, c), append(part.places, i), results
	}
	flush()
	for _, r := range results {
		last = max(last, r.Position)
	}
	// The caller reads its own writes on this node.
	if err := s.has(ctx, last); err != nil && last > 0 {
		for i := range results {
			results[i].Err = cmp.Or(results[i].Err, err)
		}
	}
	return results
}

// call sends commits to the sequencer until they are answered.
func (s *Store) call(ctx context.Context, c *waitingCall) {
	c.ctx, c.done = ctx, make(chan struct{})
	s.mu.Lock()
	closed := s.ctx.Err() != nil
	s.last++
	id := s.last
	if !closed {
		s.calls[id] = c
	}
	s.mu.Unlock()
	if closed {
		c.fail(eventstore.ErrClosed)
		return
	}
	s.post(calling{id})
	select {
	case <-c.done:
	case <-ctx.Done():
		s.mu.Lock()
		_, waits := s.calls[id]
		delete(s.calls, id)
		s.mu.Unlock()
		if !waits {
			<-c.done
			return
		}
		s.post(replied{id})
		c.fail(ctx.Err())
	}
}

func (c *waitingCall) fail(err error) {
	for _, i := range c.places {
		c.results[i].Err = err
	}
	close(c.done)
}

var errSeen = errors.New("seen")

// has waits until the file has the position.
func (s *Store) has(ctx context.Context, p eventstore.Position) error {
	if last, err := s.Store.Last(ctx); err != nil || last >= p {
		return err
	}
	err := s.Follow(ctx, p-1, eventstore.Filter{}, func(eventstore.Stored) error { return errSeen })
	if errors.Is(err, errSeen) {
		return nil
	}
	return err
}

// trueRead waits until the file has all that was acknowledged before it was called.
func (s *Store) trueRead(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.Err(); err != nil {
		return err
	}
	ready := make(chan error, 1)
	s.mu.Lock()
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return eventstore.ErrClosed
	}
	s.last++
	id := s.last
	s.reads[id] = ready
	s.mu.Unlock()
	s.post(reading{id})
	select {
	case err := <-ready:
		return err
	case <-s.Fatal():
		return s.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Last implements eventstore.Store.
func (s *Store) Last(ctx context.Context) (eventstore.Position, error) {
	if err := s.trueRead(ctx); err != nil {
		return 0, err
	}
	return s.Store.Last(ctx)
}

// LastOf implements eventstore.Store.
func (s *Store) LastOf(ctx context.Context, f eventstore.Filter) (eventstore.Position, error) {
	if err := s.trueRead(ctx); err != nil {
		return 0, err
	}
	return s.Store.LastOf(ctx, f)
}

// Load implements eventstore.Store.
func (s *Store) Load(ctx context.Context, st eventstore.Stream) iter.Seq2[eventstore.Stored, error] {
	return s.LoadAfter(ctx, st, 0)
}

// LoadAfter implements eventstore.Store.
func (s *Store) LoadAfter(ctx context.Context, st eventstore.Stream, after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		if err := s.trueRead(ctx); err != nil {
			yield(eventstore.Stored{}, err)
			return
		}
		s.Store.LoadAfter(ctx, st, after)(yield)
	}
}

// Claimed implements eventstore.Store. A claim that is found is true at once.
func (s *Store) Claimed(ctx context.Context, project string, key domain.Digest) (eventstore.Stored, bool, error) {
	if r, ok, err := s.Store.Claimed(ctx, project, key); ok || err != nil {
		return r, ok, err
	}
	if err := s.trueRead(ctx); err != nil {
		return eventstore.Stored{}, false, err
	}
	return s.Store.Claimed(ctx, project, key)
}

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

// post gives the machine an event.
func (s *Store) post(e event) {
	s.mu.Lock()
	s.events = append(s.events, e)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// loop is the machine's goroutine. Effects that take time run beside it.
func (s *Store) loop() {
	for {
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		events := s.events
		s.events = nil
		s.mu.Unlock()
		for _, e := range events {
			if l, ok := e.(sequencing); ok {
				s.leader.Store(l.name)
			}
			for _, x := range s.node.step(s.now().Sub(s.began), e) {
				s.effect(x)
			}
			s.number.Store(s.node.follower.number)
			s.leading.Store(s.node.sequencer.leading)
			s.ready.Store(s.node.sequencer.ready)
		}
	}
}

func (s *Store) effect(x effect) {
	switch x := x.(type) {
	case publish:
		nonce, number, message := x.group.Nonce, x.group.Number, encode(x.group) // before the group is decided
		s.beside(func() {
			if s.publish(number, message) != nil {
				s.post(unknown{nonce})
				return
			}
			s.post(accepted{nonce, number})
		})
	case republish:
		s.beside(func() { s.republish(x.number) })
	case look:
		s.beside(s.hear)
	case decide:
		s.decision <- x.group
	case apply:
		s.beside(func() { s.applyGroup(x.group) })
	case fetch:
		s.beside(func() { s.fetch(x) })
	case askStatus:
		s.beside(func() { s.askStatus(x.term) })
	case ask:
		s.beside(func() { s.ask(x) })
	case answer:
		s.answer(x)
	case serve:
		s.serve(x)
	case send:
		s.beside(func() { s.send(x) })
	case giveUp:
		s.mu.Lock()
		c := s.calls[x.call]
		delete(s.calls, x.call)
		s.mu.Unlock()
		if c != nil {
			c.fail(eventstore.ErrUnconfirmed)
		}
	case stepDown:
		s.beside(func() {
			_, err := s.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+logStream, nil, publishTime)
			s.report(fmt.Errorf("this node cannot sequence and asks LOG for another leader: %w", err))
		})
	case stop:
		s.stopped.Store(&x.why)
		s.report(fmt.Errorf("this node takes no part any more: %w", x.why))
	}
}

func (s *Store) serve(x serve) {
	s.mu.Lock()
	ready := s.reads[x.read]
	delete(s.reads, x.read)
	s.mu.Unlock()
	switch {
	case ready == nil:
	case x.failed:
		ready <- eventstore.ErrBusy
	default:
		ready <- nil
	}
}

func (s *Store) applyGroup(g *bolt.Group) {
	err := s.Apply(g)
	var mismatch *bolt.MismatchError
	for errors.Is(err, eventstore.ErrFull) && s.ctx.Err() == nil {
		s.report(err)
		s.sleep(time.Second)
		err = s.Apply(g)
	}
	switch {
	case err == nil:
		s.post(applied{})
	case errors.As(err, &mismatch):
		s.post(mismatched{err})
	default:
		s.report(err) // the file has failed or is closed
	}
}

func (s *Store) republish(number uint64) {
	g, ok, err := s.Group(s.ctx, number)
	if err != nil {
		s.report(err)
		return
	}
	if !ok {
		g = &bolt.Group{Number: number, Writer: s.writer, At: s.now().UnixMilli()}
		binary.BigEndian.PutUint64(g.Nonce[:], uint64(s.now().UnixNano()))
	}
	_ = s.publish(number, encode(g)) // what LOG has now says whether it was needed
	s.hear()
}
