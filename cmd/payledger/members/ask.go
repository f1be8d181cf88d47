package members

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	// MaxAnswer is the longest answer to a question, in bytes: it fits into a message
	// of NATS.
	MaxAnswer = 1<<20 - 4<<10

	// AnswerTime is how long a node works on the answer to a question.
	AnswerTime = 10 * time.Second

	// Of one kind, a node answers so many questions at a time, and so many messages and
	// bytes wait to be looked at.
	maxAnswering, maxWaiting, waitingSize = 64, 1024, 4 << 20
)

var (
	// ErrNotTaken: no node got the question, or the node had no room for it. Nothing
	// was done.
	ErrNotTaken = errors.New("no node has taken up the question")

	// ErrNoAnswer: there was no answer in time. What was asked for may have been done.
	ErrNoAnswer = errors.New("the node that was asked has not answered")
)

// subject is where a node is asked questions of one kind.
func (n *Node) subject(node, kind string) string {
	return "payledger.node." + n.Cluster.String() + "." + node + "." + kind
}

// Ask asks another node, or this one, a question.
func (n *Node) Ask(ctx context.Context, node, kind string, question []byte) ([]byte, error) {
	reply, err := n.Conn.NATS().RequestWithContext(ctx, n.subject(node, kind), question)
	switch {
	case errors.Is(err, nats.ErrNoResponders), err == nil && len(reply.Data) == 0:
		return nil, fmt.Errorf("%w: node %s", ErrNotTaken, node)
	case err != nil:
		return nil, fmt.Errorf("%w: node %s: %w", ErrNoAnswer, node, err)
	case len(reply.Data) > MaxAnswer:
		return nil, fmt.Errorf("%w: node %s: its answer has %d bytes", ErrNoAnswer, node, len(reply.Data))
	}
	return reply.Data, nil
}

// Tell tells another node something in the form of a question, and waits for nothing.
func (n *Node) Tell(node, kind string, question []byte) error {
	return n.Conn.NATS().Publish(n.subject(node, kind), question)
}

// answering are the questions that are being answered.
type answering struct {
	ctx    context.Context //nolint:containedctx // until stop
	places chan struct{}
	answer func(context.Context, []byte) []byte
	report func(error)

	mu      sync.Mutex // guards running until ctx ends
	running sync.WaitGroup
}

// Answer answers the questions of one kind that other nodes ask this one, until stop is
// called, which waits for those under way. An empty answer says that the question was
// not taken up.
func (n *Node) Answer(kind string, answer func(context.Context, []byte) []byte) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	a := &answering{ctx: ctx, places: make(chan struct{}, maxAnswering), answer: answer, report: n.Report}
	sub, err := n.Conn.NATS().Subscribe(n.subject(n.Node, kind), a.take)
	if err == nil {
		err = sub.SetPendingLimits(maxWaiting, waitingSize)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("waiting for the questions of other nodes: %w", err)
	}
	return func() error {
		err := sub.Unsubscribe()
		a.mu.Lock()
		cancel()
		a.mu.Unlock()
		a.running.Wait()
		return err
	}, nil
}

// take answers a question beside the others that have a place.
func (a *answering) take(m *nats.Msg) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	select {
	case a.places <- struct{}{}:
		a.running.Go(func() {
			defer func() { <-a.places }()
			ctx, cancel := context.WithTimeout(a.ctx, AnswerTime)
			defer cancel()
			a.respond(m, a.answer(ctx, m.Data))
		})
	default:
		a.respond(m, nil)
	}
}

func (a *answering) respond(m *nats.Msg, b []byte) {
	if m.Reply == "" {
		return
	}
	if err := m.Respond(b); err != nil {
		a.report(err)
	}
}
