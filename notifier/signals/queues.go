package signals

import (
	"context"
	"sync"
	"time"

	"payledger/domain"
	"payledger/notifier/queue"
)

// With maxInflight signals or maxInflightBytes bytes inflight, no more are taken
// of a route that has its share or more; other routes may exceed the limits by
// half.
const (
	maxInflight      = 96 << 10
	maxInflightBytes = 64 << 20
)

// signalQueues are the signals inflight. Routes take turns, however many signals each
// has, and so do the payments of a route. The signals of one payment and route
// keep their order, and only one signal of a payment is judged at a time. Safe
// for concurrent use.
type signalQueues struct {
	mu       sync.Mutex
	signals  map[uint64]*signal // by sequence in SIGNALS
	size     int                // of the signals inflight, in bytes
	routes   map[string]*route  // that have signals inflight
	payments map[paymentKey]*paymentQueues
	turns    fifo[*route]  // those with a queue that is ready, each once
	pausing  int           // queues
	poke     chan struct{} // a queue is ready
}

// route has the signals inflight that came through one route.
type route struct {
	name  string
	count int // signals inflight
	ready fifo[*signalQueue]
}

type paymentKey struct {
	project string
	id      domain.ID
}

// paymentQueues has the signals inflight for one payment.
type paymentQueues struct {
	key     paymentKey
	byRoute map[string]*signalQueue // by route
	busy    bool                    // a signal of it is being judged
	blocked fifo[*signalQueue]      // waiting for busy to end; while there is one, the payment is busy or another of its queues is ready
}

// signalQueue has the signals for one payment through one route, in order. The first is
// judged next.
type signalQueue struct {
	route   *route
	payment *paymentQueues
	signals fifo[*signal]
}

func newSignalQueues() *signalQueues {
	return &signalQueues{
		signals: make(map[uint64]*signal), routes: make(map[string]*route), payments: make(map[paymentKey]*paymentQueues),
		poke: make(chan struct{}, 1),
	}
}

// arrived is the result of take.
type arrived int

const (
	queued   arrived = iota
	repeated         // the signal is inflight already: JetStream delivered it again
	tooMany          // no more signals of the route are taken
)

// take adds a signal to its queue. One that is malformed is inflight in no queue.
func (l *signalQueues) take(s *signal) arrived {
	l.mu.Lock()
	defer l.mu.Unlock()
	if there := l.signals[s.sequence]; there != nil {
		if there.ack == "" {
			there.ack = s.ack
		}
		return repeated
	}
	r := l.routes[s.route]
	if l.full(r) {
		return tooMany
	}
	if r == nil {
		r = &route{name: s.route}
		l.routes[s.route] = r
	}
	l.signals[s.sequence] = s
	r.count++
	l.size += s.size()
	if s.malformed != nil {
		return queued
	}
	key := paymentKey{s.project, s.payment}
	d := l.payments[key]
	if d == nil {
		d = &paymentQueues{key: key, byRoute: make(map[string]*signalQueue, 1)}
		l.payments[key] = d
	}
	s.queue = d.byRoute[s.route]
	if s.queue == nil {
		s.queue = &signalQueue{route: r, payment: d}
		d.byRoute[s.route] = s.queue
	}
	if s.queue.signals.put(s); len(s.queue.signals) == 1 {
		l.ready(s.queue)
	}
	return queued
}

// has reports whether a queue has signals of the subject.
func (l *signalQueues) has(subject string) bool {
	s := signal{subject: subject}
	s.address()
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.payments[paymentKey{s.project, s.payment}]
	return s.malformed == nil && d != nil && d.byRoute[s.route] != nil
}

// countOf is how many signals of a route are inflight.
func (l *signalQueues) countOf(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.routes[name]; r != nil {
		return r.count
	}
	return 0
}

// full reports whether there is no room for one more of a route.
func (l *signalQueues) full(r *route) bool {
	held := len(l.signals)
	switch {
	case held < maxInflight && l.size < maxInflightBytes:
		return false
	case held >= maxInflight*3/2 || l.size >= maxInflightBytes*3/2:
		return true
	}
	return r != nil && r.count >= held/len(l.routes)
}

// ready queues a queue for its route's turn.
func (l *signalQueues) ready(a *signalQueue) {
	if a.route.ready.put(a); len(a.route.ready) == 1 {
		l.turns.put(a.route)
	}
	queue.Poke(l.poke)
}

// next waits until a queue is ready, and appends up to most signals of different
// payments to dst, one route after the other. The caller has to call again,
// later, leave or following for each. It appends none when ctx has ended.
func (l *signalQueues) next(ctx context.Context, dst []*signal, most int) []*signal {
	for ctx.Err() == nil {
		if dst = l.pick(dst, most); len(dst) > 0 {
			return dst
		}
		select {
		case <-l.poke:
		case <-ctx.Done():
		}
	}
	return dst
}

func (l *signalQueues) pick(dst []*signal, most int) []*signal {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(dst) < most && len(l.turns) > 0 {
		r := l.turns.take()
		a := r.ready.take()
		if len(r.ready) > 0 {
			l.turns.put(r)
		}
		if a.payment.busy {
			a.payment.blocked.put(a)
			continue
		}
		a.payment.busy = true
		dst = append(dst, a.signals[0])
	}
	if len(l.turns) > 0 {
		queue.Poke(l.poke) // another worker may be waiting
	}
	return dst
}

// requeue leaves a signal first in its queue, to be judged at the queue's next turn.
func (l *signalQueues) requeue(s *signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(s.queue)
}

// release ends the judging of a queue's payment, whose other queues come first.
func (l *signalQueues) release(a *signalQueue) {
	l.free(a.payment)
	if len(a.signals) == 0 {
		delete(a.payment.byRoute, a.route.name)
		if len(a.payment.byRoute) == 0 {
			delete(l.payments, a.payment.key)
		}
		return
	}
	l.ready(a)
}

func (l *signalQueues) free(d *paymentQueues) {
	d.busy = false
	if len(d.blocked) > 0 {
		l.ready(d.blocked.take())
	}
}

// dequeue takes a signal off its queue; the queue's next one may be judged. The
// signal stays inflight until done.
func (l *signalQueues) dequeue(s *signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.queue.signals.take()
	l.release(s.queue)
}

// dequeueNext takes a signal off its queue and returns the queue's next one, which
// the caller judges at once; nil when there is none.
func (l *signalQueues) dequeueNext(s *signal) *signal {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := s.queue
	a.signals.take()
	if len(a.signals) == 0 {
		l.release(a)
		return nil
	}
	return a.signals[0]
}

// finish ends a signal that has left its queue and returns the subject to
// acknowledge it on.
func (l *signalQueues) finish(s *signal) (ack string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.signals, s.sequence)
	l.size -= s.size()
	r := l.routes[s.route]
	if r.count--; r.count == 0 {
		delete(l.routes, s.route)
	}
	return s.ack
}

// delay leaves a signal first in its queue and lets the queue pause.
func (l *signalQueues) delay(s *signal, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free(s.queue.payment)
	l.pausing++
	time.AfterFunc(pause, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.pausing--
		l.ready(s.queue)
	})
}

// count is how many signals are inflight.
func (l *signalQueues) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.signals)
}

// delayed is how many queues pause.
func (l *signalQueues) delayed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pausing
}

// acks are the subjects on which the signals inflight are acknowledged.
func (l *signalQueues) acks() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]string, 0, len(l.signals))
	for _, s := range l.signals {
		if s.ack != "" {
			all = append(all, s.ack)
		}
	}
	return all
}
