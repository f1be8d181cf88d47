package notifier

import (
	"context"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// lanes keep the signals of one payment in order and let those of different
// payments pass each other. A lane is there while it holds a signal.
type lanes struct {
	ctx   context.Context //nolint:containedctx // of the group that runs the lanes
	group *errgroup.Group
	judge func(context.Context, jetstream.Msg, slots) error
	slots slots

	mu     sync.Mutex
	queues map[string][]jetstream.Msg // by subject; the first is being judged
	inHand map[uint64]jetstream.Msg   // by sequence in SIGNALS
}

// slots bound the commands under way; a signal that waits for its time holds
// none.
type slots chan struct{}

func (s slots) acquire(ctx context.Context) bool {
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s slots) release() { <-s }

func newLanes(ctx context.Context, g *errgroup.Group, judge func(context.Context, jetstream.Msg, slots) error) *lanes {
	return &lanes{
		ctx: ctx, group: g, judge: judge, slots: make(slots, signalsAtOnce),
		queues: make(map[string][]jetstream.Msg), inHand: make(map[uint64]jetstream.Msg),
	}
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
	l.inHand[seq] = msg
	lane := laneOf(msg.Subject())
	queue := l.queues[lane]
	l.queues[lane] = append(queue, msg)
	if len(queue) == 0 {
		l.group.Go(func() error { return l.run(lane) })
	}
	return nil
}

// laneOf names the payment a signal is about, whatever its route: the two
// last parts of the subject.
func laneOf(subject string) string {
	if _, project, payment, err := signalAddress(subject); err == nil {
		return project + "." + payment.String()
	}
	return subject
}

// run judges a lane's signals until there are none.
func (l *lanes) run(lane string) error {
	for {
		l.mu.Lock()
		msg := l.queues[lane][0]
		l.mu.Unlock()
		if err := l.judge(l.ctx, msg, l.slots); err != nil {
			return err
		}
		if !l.done(lane, msg) {
			return nil
		}
	}
}

// done takes the first signal off the lane and reports whether there is
// another.
func (l *lanes) done(lane string, msg jetstream.Msg) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if meta, err := msg.Metadata(); err == nil {
		delete(l.inHand, meta.Sequence.Stream)
	}
	l.queues[lane] = l.queues[lane][1:]
	if len(l.queues[lane]) == 0 {
		delete(l.queues, lane)
		return false
	}
	return true
}

// keep tells JetStream that what is in hand is being worked on, so that it is
// not delivered again.
func (l *lanes) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, msg := range l.inHand {
		_ = msg.InProgress() // what is delivered again is recognised
	}
}
