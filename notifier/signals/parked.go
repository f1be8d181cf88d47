package signals

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/notifier/bus"
)

// Parked lets the operator list, retry and discard the signals in the JetStream
// stream PARKED. Safe for concurrent use.
type Parked struct {
	conn *bus.Conn
	fill *parkedFill
}

// Parked gives access to the signals that this enforcer and earlier ones could
// not judge.
func (e *Enforcer) Parked() *Parked { return &Parked{conn: e.config.Conn, fill: &e.parker.fill} }

// List returns up to limit signals after an id, oldest first; only those of the
// reason unless that is empty.
func (p *Parked) List(ctx context.Context, after uint64, reason string, limit int) (domain.ParkedPage, error) {
	page := domain.ParkedPage{Data: []domain.ParkedSignal{}}
	s, err := p.conn.JetStream().Stream(ctx, bus.ParkedStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) { // it is made soon after the start
		return page, nil
	}
	if err != nil {
		return page, fmt.Errorf("looking for the JetStream stream %s: %w", bus.ParkedStream, err)
	}
	info := s.CachedInfo()
	page.Last, page.Signals, page.Bytes, page.LimitBytes = info.State.LastSeq, info.State.Msgs, info.State.Bytes, info.Config.MaxBytes
	text := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") } // a subject need not be UTF-8 either
	// The messages read are bounded, however few have the reason.
	for range 10 * limit {
		m, err := s.GetMsg(ctx, after+1, jetstream.WithGetMsgSubject(bus.ParkedSubject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return page, nil
		}
		if err != nil {
			return page, fmt.Errorf("reading the JetStream stream %s: %w", bus.ParkedStream, err)
		}
		after = m.Sequence
		signal := domain.ParkedSignal{
			ID: m.Sequence, ParkedAt: domain.InstantOf(m.Time),
			Reason: text(m.Header.Get(HeaderParkedReason)), Detail: text(m.Header.Get(HeaderParkedDetail)),
			Subject: text(m.Header.Get(HeaderParkedSubject)), Bytes: len(m.Data), Body: text(string(m.Data)),
		}
		if n, err := strconv.Atoi(m.Header.Get(headerParkedCut)); err == nil {
			signal.Bytes, signal.Cut = n, true
		}
		if reason == "" || reason == signal.Reason {
			page.Data = append(page.Data, signal)
		}
		if len(page.Data) == limit {
			break
		}
	}
	if after < page.Last {
		page.Next = after
	}
	return page, nil
}

// Why a signal stays parked that was not judged again.
const (
	parkedCut          = "cut"           // only its beginning was stored
	parkedUnknownRoute = "unknown_route" // SIGNALS takes none of its route
)

// Retry has a parked signal judged again and returns the reply. Then the signal leaves PARKED; if
// it still cannot be judged, it is parked again. found is false when PARKED has none of that id.
func (p *Parked) Retry(ctx context.Context, id uint64) (reply domain.SignalReply, found bool, err error) {
	s, m, err := p.find(ctx, id)
	if err != nil || m == nil {
		return reply, false, err
	}
	if m.Header.Get(headerParkedCut) != "" {
		return domain.SignalReply{Result: domain.SignalParked, Reason: parkedCut}, true, nil
	}
	inbox := nats.NewInbox()
	answers, err := p.conn.NATS().SubscribeSync(inbox)
	if err != nil {
		return reply, true, fmt.Errorf("subscribing to the answer to a signal: %w", err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	again := &nats.Msg{Subject: m.Header.Get(HeaderParkedSubject), Header: nats.Header{bus.ReplyHeader: {inbox}}, Data: m.Data}
	if _, err := p.conn.JetStream().PublishMsg(ctx, again, jetstream.WithExpectStream(bus.SignalsStream)); errors.Is(err, jetstream.ErrNoStreamResponse) {
		return domain.SignalReply{Result: domain.SignalParked, Reason: parkedUnknownRoute}, true, nil
	} else if err != nil {
		return reply, true, fmt.Errorf("sending a signal again: %w", err)
	}
	answer, err := answers.NextMsgWithContext(ctx)
	if err != nil {
		return reply, true, fmt.Errorf("waiting for the answer to a signal: %w", err)
	}
	if err := json.Unmarshal(answer.Data, &reply); err != nil {
		return reply, true, fmt.Errorf("reading the answer to a signal: %w", err)
	}
	return reply, true, p.remove(ctx, s, id)
}

// Discard removes a signal from PARKED. found is false when there is none of that id.
func (p *Parked) Discard(ctx context.Context, id uint64) (found bool, err error) {
	s, m, err := p.find(ctx, id)
	if err != nil || m == nil {
		return false, err
	}
	return true, p.remove(ctx, s, id)
}

// DiscardThrough removes all signals up to an id from PARKED, and returns how many there were.
func (p *Parked) DiscardThrough(ctx context.Context, id uint64) (uint64, error) {
	p.fill.turn.Lock()
	defer p.fill.turn.Unlock()
	s, err := p.conn.JetStream().Stream(ctx, bus.ParkedStream)
	if err != nil {
		return 0, fmt.Errorf("looking for the JetStream stream %s: %w", bus.ParkedStream, err)
	}
	state := s.CachedInfo().State
	before, id := goneFrom(state), min(id, state.LastSeq) // ids beyond it are for later ones
	if err := s.Purge(ctx, jetstream.WithPurgeSequence(id+1)); err != nil {
		return 0, fmt.Errorf("emptying the JetStream stream %s: %w", bus.ParkedStream, err)
	}
	after, err := s.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("looking at the JetStream stream %s: %w", bus.ParkedStream, err)
	}
	n := goneFrom(after.State) - before
	p.fill.took(n)
	return n, nil
}

// find returns a nil message when there is none of that id.
func (p *Parked) find(ctx context.Context, id uint64) (jetstream.Stream, *jetstream.RawStreamMsg, error) {
	s, err := p.conn.JetStream().Stream(ctx, bus.ParkedStream)
	if err != nil {
		return nil, nil, fmt.Errorf("looking for the JetStream stream %s: %w", bus.ParkedStream, err)
	}
	m, err := s.GetMsg(ctx, id)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return s, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the JetStream stream %s: %w", bus.ParkedStream, err)
	}
	return s, m, nil
}

func (p *Parked) remove(ctx context.Context, s jetstream.Stream, id uint64) error {
	p.fill.turn.Lock()
	defer p.fill.turn.Unlock()
	err := s.DeleteMsg(ctx, id)
	if err == nil {
		p.fill.took(1)
	} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("taking a signal out of the JetStream stream %s: %w", bus.ParkedStream, err)
	}
	return nil
}
