package notifier

import (
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/notifier/acquirer"
)

// signal is a message of SIGNALS and what it says.
type signal struct {
	jetstream.Msg
	sequence uint64
	lane     string

	project   string
	payment   domain.ID
	says      domain.Signal
	malformed error // it is none

	early backoff // between tries while its payment has no route
}

func newSignal(msg jetstream.Msg, sequence uint64) *signal {
	s := &signal{Msg: msg, sequence: sequence, lane: msg.Subject()}
	var route string
	if route, s.project, s.payment, s.malformed = signalAddress(msg.Subject()); s.malformed != nil {
		return s
	}
	s.lane = s.project + "." + s.payment.String() // whatever the route
	s.says, s.malformed = acquirer.Decode(route, msg.Data())
	return s
}

// lanes keep the signals of one payment in order and let those of different
// payments pass each other. A lane is there while it holds a signal. Safe for
// concurrent use.
type lanes struct {
	// ready holds the first signals of lanes, each until it is taken to be
	// judged. Who took it puts it back or calls done.
	ready *queue[*signal]

	mu     sync.Mutex
	queues map[string][]*signal // the first is ready, or being judged
	inHand map[uint64]*signal   // by sequence in SIGNALS
}

func newLanes() *lanes {
	return &lanes{ready: newQueue[*signal](), queues: make(map[string][]*signal), inHand: make(map[uint64]*signal)}
}

// take adds a signal to the lane of its payment. One that is in hand already,
// delivered again, is left out.
func (l *lanes) take(msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("reading the JetStream stream %s: %w", SignalsStream, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := meta.Sequence.Stream
	if l.inHand[seq] != nil {
		return nil
	}
	s := newSignal(msg, seq)
	l.inHand[seq] = s
	queue := l.queues[s.lane]
	l.queues[s.lane] = append(queue, s)
	if len(queue) == 0 {
		l.ready.put(s)
	}
	return nil
}

// done takes the first signal off its lane. It is the next one's turn.
func (l *lanes) done(s *signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.inHand, s.sequence)
	rest := l.queues[s.lane][1:]
	if len(rest) == 0 {
		delete(l.queues, s.lane)
		return
	}
	l.queues[s.lane] = rest
	l.ready.put(rest[0])
}

// held is how many signals are in hand.
func (l *lanes) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.inHand)
}

// keep tells JetStream that what is in hand is being worked on, so that it is
// not delivered again.
func (l *lanes) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.inHand {
		_ = s.InProgress() // what is delivered again is recognised
	}
}
