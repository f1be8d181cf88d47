package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
)

// PublishAhead is how many events are published ahead of JetStream's answers.
const PublishAhead = 256

// answerEvery is how many events one answer of the embedded JetStream acknowledges: each is
// accepted only after the one before it, and there is no other writer. EVENTS of an external server
// may have others, so there each event is acknowledged.
const answerEvery = 32

// Publisher writes events into EVENTS. One goroutine publishes and another one
// waits for what was confirmed.
type Publisher struct {
	log     domain.ID
	nc, own *nats.Conn          // own: nc if it is closed with the publisher
	answers *nats.Subscription  // on its subject
	every   eventstore.Position // events for one answer
	asked   eventstore.Position // the last that an answer was asked for
	pending chan eventstore.Position
}

// NewPublisher returns a publisher into EVENTS for the events of a log: to the embedded server over
// a separate connection, as UserRelay.
func NewPublisher(c *Conn, log domain.ID) (p *Publisher, err error) {
	p = &Publisher{log: log, nc: c.nc, every: 1, pending: make(chan eventstore.Position, PublishAhead)}
	if c.Embedded() {
		p.every = answerEvery
		p.own, err = nats.Connect(nats.DefaultURL, nats.Name("payledger relay"), nats.NoReconnect(), nats.Timeout(connectTimeout),
			nats.InProcessServer(c.server), nats.UserInfo(UserRelay, c.server.Password()), nats.CustomInboxPrefix(InboxLedger))
		if err != nil {
			return nil, fmt.Errorf("connecting to the embedded NATS server: %w", err)
		}
		p.nc = p.own
	}
	if p.answers, err = p.nc.SubscribeSync(p.nc.NewInbox()); err != nil {
		p.Close()
		return nil, fmt.Errorf("subscribing to an inbox: %w", err)
	}
	return p, nil
}

// Publish sends an event, the next in the log; last: none follows it yet.
func (p *Publisher) Publish(ctx context.Context, s eventstore.Stored, last bool) error {
	msg, err := EventMessage(p.log, s)
	if err != nil {
		return err
	}
	if !last && s.Position < p.asked+p.every {
		return p.nc.PublishMsg(msg)
	}
	p.asked, msg.Reply = s.Position, p.answers.Subject
	if err := p.nc.PublishMsg(msg); err != nil {
		return err
	}
	select {
	case p.pending <- s.Position:
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

// Confirmed waits for JetStream's next answer: the position up to which EVENTS
// holds the log, and whether more answers are awaited.
func (p *Publisher) Confirmed(ctx context.Context) (copied eventstore.Position, more bool, err error) {
	m, err := p.answers.NextMsgWithContext(ctx)
	if err != nil {
		return 0, false, err
	}
	if status := m.Header.Get("Status"); status != "" {
		return 0, false, errors.New(status)
	}
	var a answer
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return 0, false, fmt.Errorf("its answer: %w", err)
	}
	if a.Error != nil {
		return 0, false, a.Error
	}
	select {
	case at := <-p.pending:
		if a.Sequence != uint64(at) {
			return 0, false, fmt.Errorf("it took position %d as sequence %d", at, a.Sequence)
		}
		return at, p.Waits(), nil
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
}

// Waits reports whether answers are awaited.
func (p *Publisher) Waits() bool { return len(p.pending) > 0 }

// Close ends publishing, when Publish and Confirmed have returned or their contexts
// have ended.
func (p *Publisher) Close() {
	if p.own != nil {
		p.own.Close()
		return
	}
	_ = p.answers.Unsubscribe()
}
