package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
)

// Outlet is the events' way into EVENTS. One goroutine publishes, another asks
// what was confirmed, and close ends what both wait for.
type Outlet interface {
	// Publish sends an event, the next in the log; last: none follows it yet.
	Publish(ctx context.Context, s eventstore.Stored, last bool) error
	// Confirmed waits for JetStream's next answer: the position up to which it
	// holds the log, and whether more answers are awaited.
	Confirmed(ctx context.Context) (copied eventstore.Position, more bool, err error)
	// Waits reports whether answers are awaited.
	Waits() bool
	Close()
}

// NewOutlet opens a way for the events of a log.
func NewOutlet(c *Conn, log domain.ID) (Outlet, error) {
	if c.Embedded() {
		return newWireOutlet(c, log)
	}
	return &clientOutlet{js: c.JetStream(), log: log, pending: make(chan published, OutletAhead)}, nil
}

// clientOutlet leads to an external server, which answers for each event.
type clientOutlet struct {
	js      jetstream.JetStream
	log     domain.ID
	pending chan published
}

// OutletAhead is how many events are published ahead of JetStream's answers.
const OutletAhead = 256

// published is an event that awaits JetStream's answer.
type published struct {
	position eventstore.Position
	answer   jetstream.PubAckFuture
}

func (o *clientOutlet) Publish(ctx context.Context, s eventstore.Stored, _ bool) error {
	msg, err := EventMessage(o.log, s)
	if err != nil {
		return err
	}
	answer, err := o.js.PublishMsgAsync(msg, jetstream.WithExpectStream(EventsStream), jetstream.WithRetryAttempts(0))
	if err != nil {
		return err
	}
	select {
	case o.pending <- published{s.Position, answer}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *clientOutlet) Confirmed(ctx context.Context) (copied eventstore.Position, more bool, err error) {
	var p published
	select {
	case p = <-o.pending:
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
	select {
	case ack := <-p.answer.Ok():
		return p.position, o.Waits(), taken(p.position, ack.Sequence)
	case err := <-p.answer.Err():
		return 0, false, err
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
}

func taken(position eventstore.Position, sequence uint64) error {
	if sequence != uint64(position) {
		return fmt.Errorf("it took position %d as sequence %d", position, sequence)
	}
	return nil
}

func (o *clientOutlet) Waits() bool { return len(o.pending) > 0 }

func (o *clientOutlet) Close() {}

// wireOutlet leads to the embedded server. Only the last event of a batch asks
// for an answer: since each expects the one before and nobody else may write,
// the answer stands for all of them.
type wireOutlet struct {
	wire    *wire
	log     domain.ID
	header  eventHeader
	inbox   string
	asked   eventstore.Position
	pending chan eventstore.Position
}

const batch = 32

func newWireOutlet(c *Conn, log domain.ID) (*wireOutlet, error) {
	o := &wireOutlet{log: log, inbox: c.NATS().NewInbox(), pending: make(chan eventstore.Position, OutletAhead/batch)}
	var err error
	o.wire, err = c.server.wire(UserRelay, o.inbox)
	return o, err
}

func (o *wireOutlet) Publish(ctx context.Context, s eventstore.Stored, last bool) error {
	header, err := o.header.block(o.log, s)
	if err != nil {
		return err
	}
	if !last && s.Position < o.asked+batch {
		return o.wire.publish(EventSubject(s.Stream), "", header, s.Body)
	}
	o.asked = s.Position
	if err := o.wire.publish(EventSubject(s.Stream), o.inbox+".answer", header, s.Body); err != nil {
		return err
	}
	if err := o.wire.flush(); err != nil {
		return err
	}
	select {
	case o.pending <- s.Position:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answer is JetStream's to a message.
type answer struct {
	Sequence uint64              `json:"seq"`
	Error    *jetstream.APIError `json:"error"`
}

func (o *wireOutlet) Confirmed(ctx context.Context) (copied eventstore.Position, more bool, err error) {
	m, err := o.wire.next()
	if err != nil {
		return 0, false, err
	}
	if status := m.header.status(); status != "" {
		return 0, false, errors.New(status)
	}
	var a answer
	if err := json.Unmarshal(m.data, &a); err != nil {
		return 0, false, fmt.Errorf("its answer: %w", err)
	}
	if a.Error != nil {
		return 0, false, a.Error
	}
	select {
	case position := <-o.pending:
		return position, o.Waits(), taken(position, a.Sequence)
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
}

func (o *wireOutlet) Waits() bool { return len(o.pending) > 0 }

func (o *wireOutlet) Close() { o.wire.close() }
