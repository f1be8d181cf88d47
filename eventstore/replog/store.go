package replog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

const (
	tickEvery  = 50 * time.Millisecond
	retryAfter = 100 * time.Millisecond
	watchEvery = time.Second
	foundTime  = 10 * time.Second
	lostTime   = 2 * time.Second
	closeTime  = 3 * time.Second
)

// ErrNotLeader: this node is not the leader, or only just becomes it.
var ErrNotLeader = fmt.Errorf("%w: this node does not lead the cluster", eventstore.ErrBusy)

// Config is one node's part in a cluster.
type Config struct {
	Name    string
	Version string // of the program
	// Peers are the base URLs at which the other nodes' Handlers are reached, by name.
	// Client reaches them, and nobody else may reach a Handler.
	Peers  map[string]string
	Client *http.Client

	// Key encrypts the details in LOG. It is the same on all nodes, and JetStream does not have it.
	Key []byte

	Path string       // of the event log
	Bolt bolt.Options // Publish and Published are set by Open

	// Prepare is called before LOG is made, until it succeeds: JetStream makes a stream
	// only while all servers of it are up. May be nil.
	Prepare func(context.Context) error
	// NewID makes an id that was never made before.
	NewID func() string
	// Start is random: it differs from that of every other start of any node.
	Start [8]byte
	// LostAfter is how long the servers have to say that there is no LOG; 0: two seconds.
	LostAfter time.Duration
	// Now is the node's clock, which is compared with those of the others.
	Now func() time.Time
	// Report is called with errors that do not end the node's part, from any goroutine.
	Report func(error)
}

// Store is an event log on three nodes. Only the leader appends. Reads show what this
// node's file has: what a node answers is true if Barrier was called meanwhile.
type Store struct {
	*bolt.Store

	config Config
	conn   *nats.Conn
	js     jetstream.JetStream
	ctx    context.Context //nolint:containedctx // that of the goroutines, until Close
	end    context.CancelFunc
	began  time.Time

	running   sync.WaitGroup
	decisions chan decide // to the committer
	stagedEnd bolt.Tip    // of the committer
	listening *nats.Subscription

	info      atomic.Pointer[jetstream.StreamInfo] // of LOG
	withdrawn atomic.Bool                          // another node leads, or cannot
	doubled   atomic.Bool                          // a peer says that another process serves this node, too

	mu        sync.Mutex // of all that follows
	m         *machine
	moved     *sync.Cond // an event was taken
	last      uint64     // id of a read or a question
	reads     map[uint64]chan bool
	asked     map[uint64]chan *bolt.Tip
	stopFeed  context.CancelFunc
	missing   time.Time // since when the servers have said nothing but that there is no LOG
	questions uint64    // for LOG
	answered  uint64
	trouble   string
	troubleAt time.Time
	stopped   error
	unfit     string    // why; empty: this node may lead
	draining  string    // likewise, from Withdraw on
	groupAt   time.Time // when the last group came
	peers     []Status  // when they were last asked
	mark      mark      // of what is known of LOG
	current   time.Time // when this node had all that LOG had then
	askers    map[string]asker

	doubledSince time.Time
	twiceServed  chan struct{}
}

// mark is the number of LOG's last message as it was known at a time.
type mark struct {
	place
	at time.Time
}

// Open opens the node's event log, and adds what the leader has, if one answers. The node
// takes no part before Begin.
func Open(ctx context.Context, c Config) (*Store, error) {
	if len(c.Key) == 0 {
		return nil, errors.New("the cluster's key is missing")
	}
	c.LostAfter = cmp.Or(c.LostAfter, lostTime)
	s := &Store{
		config: c, began: time.Now(), decisions: make(chan decide, 1), reads: map[uint64]chan bool{}, asked: map[uint64]chan *bolt.Tip{}, askers: map[string]asker{},
		stopFeed: func() {}, twiceServed: make(chan struct{}),
	}
	s.moved = sync.NewCond(&s.mu)
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	c.Bolt.Publish, c.Bolt.Published = s.replicate, s.published
	var err error
	if s.Store, err = bolt.Open(c.Path, c.Bolt); err != nil {
		s.end()
		return nil, err
	}
	for _, p := range slices.Sorted(maps.Keys(c.Peers)) { // so that who opens the file finds it as far as that can be
		if _, err := Copy(ctx, c.Client, c.Peers[p], true, s.Store, func(eventstore.Position) {}); err == nil {
			break
		}
	}
	tip, err := s.Tip()
	if err != nil {
		s.end()
		return nil, errors.Join(err, s.Store.Close())
	}
	s.m = newMachine(c.Name, slices.Sorted(maps.Keys(c.Peers)), c.Start, tip)
	return s, nil
}

// Begin begins to take part. The connection is to the node's own server, which has the
// node's name, and is the caller's.
func (s *Store) Begin(conn *nats.Conn) (err error) {
	s.conn = conn
	if s.js, err = jetstream.New(conn); err != nil {
		return err
	}
	if s.listening, err = conn.Subscribe("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."+StreamName, func(*nats.Msg) { s.spawn(s.hear) }); err != nil {
		return err
	}
	s.every(tickEvery, func() { s.post(tick{}) })
	s.every(hearEvery, func() { s.spawn(s.hear) })
	s.every(watchEvery, s.watch)
	s.every(trimEvery, s.trim)
	return nil
}

// Close ends Follow, waits for the commits under way as long as they may be decided, ends
// the node's part, and closes its event log. Closing again answers the same.
func (s *Store) Close() error {
	late := time.AfterFunc(closeTime, s.end)
	defer late.Stop()
	err := s.Store.Close()
	s.mu.Lock()
	s.end()
	s.moved.Broadcast()
	s.mu.Unlock()
	if s.listening != nil {
		_ = s.listening.Unsubscribe()
	}
	s.running.Wait()
	return err
}

// every does something from time to time until Close.
func (s *Store) every(period time.Duration, do func()) {
	s.running.Go(func() {
		for s.ctx.Err() == nil {
			do()
			s.sleep(s.ctx, period)
		}
	})
}

func (s *Store) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// spawn runs something beside, unless the store is being closed.
func (s *Store) spawn(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spawnLocked(do)
}

func (s *Store) spawnLocked(do func()) {
	if s.ctx.Err() == nil {
		s.running.Go(do)
	}
}

// post gives the machine an event.
func (s *Store) post(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step(e)
}

// step gives the machine an event and does what it asks for; mu is held.
func (s *Store) step(e event) {
	if s.ctx.Err() != nil {
		return
	}
	before := s.m.place
	for _, x := range s.m.step(time.Since(s.began), e) {
		s.effect(x)
	}
	if s.m.place != before {
		s.groupAt = time.Now()
	}
	reached := s.m.place.log != s.mark.log || s.m.place.seq >= s.mark.seq
	if reached && s.m.place.log == s.mark.log {
		s.current = s.mark.at
	}
	if h, ok := e.(heard); ok && reached && h.log != "" {
		s.mark = mark{place{h.log, h.last}, time.Now()}
	}
	s.moved.Broadcast()
}

// effect carries out an effect; mu is held, so what may take time runs beside.
func (s *Store) effect(x effect) {
	switch x := x.(type) {
	case feed:
		s.stopFeed()
		var ctx context.Context
		ctx, s.stopFeed = context.WithCancel(s.ctx)
		s.spawnLocked(func() { s.feed(ctx, x.log) })
	case apply:
		s.spawnLocked(func() { s.apply(x) })
	case publish:
		m := encode(x.log, s.config.Key, x.group) // before the group is decided
		s.spawnLocked(func() {
			if s.publish(x, m) == nil {
				s.post(accepted{x.group.Nonce, x.seq + 1})
				return
			}
			s.post(unknown{x.group.Nonce})
			s.hear()
		})
	case decide:
		s.decisions <- x
	case ask:
		s.spawnLocked(func() { s.post(answered{x.peer, x.term, s.ask(x)}) })
	case answer:
		s.asked[x.question] <- x.tip
		delete(s.asked, x.question)
	case copyFrom:
		s.spawnLocked(func() {
			tip, err := Copy(s.ctx, s.config.Client, s.config.Peers[x.peer], x.ready, s.Store, func(eventstore.Position) {})
			if err != nil {
				s.report(fmt.Errorf("copying from node %s: %w", x.peer, err))
				s.sleep(s.ctx, retryAfter)
			}
			s.post(copied{x.peer, tip, err})
		})
	case load:
		s.spawnLocked(func() {
			b, err := s.BatchAfter(s.ctx, x.after)
			if err != nil {
				s.report(err)
			}
			s.post(loaded{b})
		})
	case serve:
		if done := s.reads[x.read]; done != nil {
			done <- x.refused
			delete(s.reads, x.read)
		}
	case found:
		s.spawnLocked(func() { s.reportAny("making LOG", s.found()) })
	case stepDown:
		to := cmp.Or(x.to, s.ablest())
		s.spawnLocked(func() { s.reportAny("asking for another leader", s.stepDown(to)) })
	case stop:
		s.stopped = x.why
		if errors.Is(x.why, ErrTwice) {
			close(s.twiceServed)
		}
		s.reportLocked(fmt.Errorf("this node takes no part any more: %w", x.why))
	}
}

func (s *Store) reportAny(what string, err error) {
	if err != nil {
		s.report(fmt.Errorf("%s: %w", what, err))
	}
}

func (s *Store) report(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reportLocked(err)
}

func (s *Store) reportLocked(err error) {
	s.trouble, s.troubleAt = err.Error(), time.Now()
	if s.config.Report != nil {
		s.spawnLocked(func() { s.config.Report(err) })
	}
}

// apply adds a group of LOG's to the file.
func (s *Store) apply(x apply) {
	tip, err := s.Extend(x.group.Batch)
	if err != nil && !errors.As(err, new(*bolt.GapError)) && !errors.As(err, new(*bolt.DivergedError)) {
		s.report(err)
		s.sleep(s.ctx, retryAfter)
	}
	s.post(applied{x.place, x.group.End(), tip, err})
}

// replicate is bolt's hook: it waits for the machine's decision on what is staged.
func (s *Store) replicate(b bolt.Batch) error {
	if s.ctx.Err() != nil {
		return eventstore.ErrClosed
	}
	s.stagedEnd = b.End() // the records are valid until this returns
	s.post(staged{b})
	for {
		select {
		case d := <-s.decisions:
			switch {
			case d.commit:
				return nil
			case d.doubt:
				return eventstore.ErrUnconfirmed
			}
			return ErrNotLeader
		case <-time.After(closeTime):
			if s.withdrawn.Load() { // and LOG does not answer: the other nodes are gone, too
				s.end()
			}
		case <-s.ctx.Done():
			return eventstore.ErrUnconfirmed
		}
	}
}

// published is bolt's hook: what was decided for is durable.
func (s *Store) published() { s.post(committed{s.stagedEnd}) }

// Append implements eventstore.Store: on a node that is not the leader the error is
// ErrNotLeader.
func (s *Store) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	s.mu.Lock()
	ready := s.m.ready
	s.mu.Unlock()
	if ready || s.ctx.Err() != nil {
		return s.Store.Append(ctx, commits...)
	}
	results := make([]eventstore.Appended, len(commits))
	for i := range results {
		results[i].Err = ErrNotLeader
	}
	return results
}

// Leader names the node that leads the cluster, as far as is known, and whether it is this
// one, and ready.
func (s *Store) Leader() (name string, here bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.leader, s.m.ready && s.m.yields == nil
}

// arrival is the moment at which a question arrived at a node.
type arrival struct {
	s      *Store
	read   uint64 // 0: no barrier was asked for yet
	done   chan bool
	term   uint64
	nonces uint64 // of groups that were published before
}

// Arrive implements eventstore.Confirmer. With soon a barrier is asked for at once, as on a node that
// is not ready: it is refused there, and what the file lacked by then is never confirmed.
func (s *Store) Arrive(soon bool) (confirm func(context.Context) error) {
	a := &arrival{s: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.term, a.nonces = s.m.term, s.m.nonces; soon || !s.m.ready {
		a.ask()
	}
	return a.confirm
}

// ask asks for a barrier; mu is held.
func (a *arrival) ask() {
	s := a.s
	s.last++
	a.read, a.done = s.last, make(chan bool, 1)
	s.reads[a.read] = a.done
	s.step(reading{a.read})
}

// confirm waits until it is known that this node has been the leader ever since the
// arrival: its file had all that any node had acknowledged by then, so an answer that
// was found there is true. Else the error is ErrNotLeader. A commit that was recorded
// since shows it, too.
func (a *arrival) confirm(ctx context.Context) error {
	s := a.s
	s.mu.Lock()
	switch {
	case a.done != nil:
	case s.m.term != a.term || !s.m.ready:
		s.mu.Unlock()
		return ErrNotLeader
	case s.m.landed > a.nonces:
		s.mu.Unlock()
		return nil
	default:
		a.ask()
	}
	s.mu.Unlock()
	err := eventstore.ErrClosed
	select {
	case refused := <-a.done:
		a.done <- refused
		if refused {
			return ErrNotLeader
		}
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reads, a.read)
	return err
}

// Barrier confirms a question that arrives now.
func (s *Store) Barrier(ctx context.Context) error { return s.Arrive(true)(ctx) }

// maxLag is how far a node may be behind and serve.
const maxLag = 10 * time.Second

// Serves says why requests that come to this node are not answered, nil if they are: it is
// the leader, or reaches one and has all that LOG had a moment ago.
func (s *Store) Serves(ctx context.Context) error {
	leader, here := s.Leader()
	if here {
		return s.Barrier(ctx)
	}
	s.mu.Lock()
	lag, stopped := time.Since(s.current), s.stopped
	s.mu.Unlock()
	i := slices.IndexFunc(s.lastPeers(), func(p Status) bool { return p.Name == leader && p.Ready })
	switch {
	case stopped != nil:
		return stopped
	case i < 0:
		return fmt.Errorf("%w: this node reaches no leader of the cluster", eventstore.ErrBusy)
	case lag > maxLag:
		return fmt.Errorf("%w: this node is %v behind the cluster's log", eventstore.ErrBusy, lag.Round(time.Second))
	}
	return nil
}

// Stop ends this node's part: its file is of another history.
func (s *Store) Stop(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped == nil {
		s.step(stopping{why})
	}
}

// Yield makes another node the leader, the one that is named or any, and waits until it
// is one; only the leader can.
func (s *Store) Yield(ctx context.Context, to string) error {
	if !s.Status().Ready {
		return ErrNotLeader
	}
	for began := false; ; began = true {
		peers := s.askPeers(ctx)
		if i := slices.IndexFunc(peers, func(p Status) bool { return p.Ready }); i >= 0 {
			if leader := peers[i].Name; to != "" && leader != to { // LOG has elected another one
				return s.askToYield(ctx, leader, to)
			}
			return nil
		}
		if err := able(peers, to, began); err != nil {
			return err
		}
		s.post(leaving{to}) // again: it may have been in vain
		if ctx.Err() != nil {
			return fmt.Errorf("another node was asked to lead, and none does yet: %w", ctx.Err())
		}
		s.sleep(ctx, tickEvery)
	}
}

// Promote makes a node the leader, whoever leads now.
func (s *Store) Promote(ctx context.Context, to string) error {
	leader, here := s.Leader()
	switch {
	case here && to == s.config.Name:
		return nil
	case here:
		return s.Yield(ctx, to)
	case s.config.Peers[leader] == "":
		return ErrNotLeader
	}
	return s.askToYield(ctx, leader, to)
}

func (s *Store) askToYield(ctx context.Context, leader, to string) error {
	body, err := Request(ctx, s.config.Client, http.MethodPost, s.config.Peers[leader]+pathYield+"?to="+url.QueryEscape(to), nil)
	if err != nil {
		return err
	}
	return body.Close()
}

// able says why none of the peers can lead, or not the one that is named. silent: one that does
// not answer might.
func able(peers []Status, to string, silent bool) error {
	var errs []error
	for _, p := range peers {
		switch {
		case to != "" && p.Name != to:
		case p.Silent != "" && !silent:
			errs = append(errs, fmt.Errorf("node %s does not answer: %s", p.Name, p.Silent))
		case p.Unfit != "" || p.Stopped != "":
			errs = append(errs, fmt.Errorf("node %s cannot lead: %s", p.Name, cmp.Or(p.Stopped, p.Unfit)))
		default:
			return nil
		}
	}
	if len(errs) == 0 {
		return fmt.Errorf("there is no other node %s", to)
	}
	return errors.Join(errs...)
}

// ablest is the peer that should lead in place of this node; empty: any. mu is held.
// LOG finds a leader that is named in a moment, and another one only after some seconds.
func (s *Store) ablest() (name string) {
	var most uint64
	for _, p := range s.peers {
		if p.Silent == "" && p.Unfit == "" && p.Stopped == "" && p.Message >= most {
			name, most = p.Name, p.Message
		}
	}
	return name
}

func (s *Store) lastPeers() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers
}

// Withdraw ends this node's time as the leader before it is stopped, or sees to it that it does not
// become the leader. What is not decided some seconds later is given up as unconfirmed, and nothing is
// appended from then on.
func (s *Store) Withdraw(ctx context.Context) error {
	s.mu.Lock()
	s.draining = "it is being stopped"
	s.step(fitness{true})
	s.mu.Unlock()
	defer s.withdrawn.Store(true)
	if !s.Status().Ready {
		return nil
	}
	return s.Yield(ctx, "")
}
