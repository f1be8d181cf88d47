package signals

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
	"payledger/notifier/queue"
)

// inflight holds the signals that were taken from SIGNALS and are not finished, and
// the queues of what is still to be done with them.
type inflight struct {
	*signalQueues

	toPark        *queue.Queue[parking]
	behind        *atomic.Uint64       // signals that JetStream has not delivered yet
	finishedAhead *queue.Queue[uint64] // sequences of finished signals that the consumer has not delivered
}

func newInflight() inflight {
	return inflight{
		signalQueues: newSignalQueues(), toPark: queue.New[parking](), behind: new(atomic.Uint64), finishedAhead: queue.New[uint64](),
	}
}

const (
	// maxBatch bounds the signals that are judged together.
	maxBatch = 256
	// batchWorkers are judged concurrently: while the log syncs the events of
	// one, the next is decided.
	batchWorkers = 2
	// maxPerTurn bounds the signals of a queue that are judged in one turn when
	// they record nothing.
	maxPerTurn = 32
	// maxTurnTime bounds the time for deciding a batch; the rest of it waits for the
	// next one. Some payments have long streams.
	maxTurnTime = 20 * time.Millisecond
)

// work judges the signals that are ready in batches, so that one sync of the log
// serves many. The error is the context's or ends the enforcer's work; then the
// signals stay in SIGNALS.
func (e *Enforcer) work(ctx context.Context, h inflight) error {
	var signals []*signal
	pauses := health.StorePause()
	for {
		if signals = h.next(ctx, signals[:0], maxBatch); len(signals) == 0 {
			return ctx.Err()
		}
		busy, err := e.decideBatch(ctx, h, signals)
		switch {
		case err != nil:
			return err
		case busy:
			pauses.Wait(ctx)
		default:
			pauses.Reset()
		}
	}
}

// decision is a signal and the event that it leads to.
type decision struct {
	signal *signal
	event  domain.Event
}

// decideBatch decides on signals of different payments, appends the events and gives
// every signal back to its queue or finishes it. busy: the store asks for a pause.
func (e *Enforcer) decideBatch(ctx context.Context, h inflight, signals []*signal) (busy bool, err error) {
	commits, of := make([]eventstore.Commit, 0, len(signals)), make([]decision, 0, len(signals))
	for i, began := 0, time.Now(); i < len(signals); i++ {
		if i > 0 && time.Since(began) > maxTurnTime {
			h.requeue(signals[i])
			continue
		}
		s, c, event, err := e.turn(ctx, h, signals[i])
		if err != nil {
			return false, err
		}
		if event != nil {
			commits, of = append(commits, c), append(of, decision{s, event})
		}
	}
	if len(commits) == 0 {
		return false, ctx.Err()
	}
	for i, done := range e.config.Ledger.Store.Append(ctx, commits...) {
		s, err := of[i].signal, done.Err
		if claimed, ok := errors.AsType[*eventstore.ClaimedError](err); ok {
			if s.taken, err = e.holderIn(claimed.Value); err == nil {
				h.requeue(s)
				continue
			}
		}
		switch {
		case err == nil:
			h.dequeue(s)
			err = e.close(h, s, replyTo(of[i].event, commits[i].ID, done.Position))
		case health.Passes(err), errors.As(err, new(*eventstore.ConflictError)):
			busy, err = busy || health.Passes(err), nil
			h.requeue(s)
		default:
			err = e.refused(h, s, err)
		}
		if err != nil {
			return false, err
		}
	}
	return busy, ctx.Err()
}

// turn decides on a signal, and on the next ones of its queue while they record
// nothing. It returns the first that records an event, which the caller has to
// give back to its queue; event is nil when there is none.
func (e *Enforcer) turn(ctx context.Context, h inflight, s *signal) (_ *signal, c eventstore.Commit, event domain.Event, err error) {
	for n := 0; s != nil; n++ {
		if n == maxPerTurn {
			h.requeue(s)
			break
		}
		if c, event, err = e.decide(ctx, s); err == nil && event != nil {
			return s, c, event, nil
		}
		reply, settled := replyWithoutEvent(err)
		if !settled {
			return nil, c, nil, e.refused(h, s, err)
		}
		next := h.dequeueNext(s)
		if err := e.close(h, s, reply); err != nil {
			return nil, c, nil, err
		}
		s = next
	}
	return nil, c, nil, nil
}

// replyWithoutEvent is the reply to a signal that was decided and records no event.
func replyWithoutEvent(err error) (reply domain.SignalReply, settled bool) {
	if err == nil {
		return domain.SignalReply{Result: domain.SignalUnchanged}, true
	}
	if u, ok := errors.AsType[*domain.UnrecordedError](err); ok {
		return domain.SignalReply{Result: domain.SignalRefused, Reason: u.Reason, Unrecorded: true}, true
	}
	return reply, false
}

// decide returns the event that a signal leads to, nil for none.
func (e *Enforcer) decide(ctx context.Context, s *signal) (c eventstore.Commit, event domain.Event, err error) {
	f, err := e.folds.of(ctx, e.config.Ledger, s.project, s.payment)
	if err != nil {
		return c, nil, err
	}
	cmd := domain.ApplySignal{Signal: s.says, Reason: s.reason, Unrecorded: f.unrecorded}
	s.taken.addTo(&cmd, s)
	e.routes.learn(f.Payment)
	if event, err = f.Decide(cmd); err != nil || event == nil {
		if errors.As(err, new(*domain.UnrecordedError)) {
			f.unrecorded++
		}
		return c, nil, err
	}
	c, err = e.config.Ledger.Commit(eventstore.PaymentStream(s.project, s.payment), f.last, event,
		eventstore.Order{EventID: e.config.IDs.Next(), Cause: f.cause})
	return c, event, err
}

// refused handles a signal that cannot be judged, or not yet. An error that is
// not about the signal is returned.
func (e *Enforcer) refused(h inflight, s *signal, err error) error {
	var reason string
	switch refusal, _ := errors.AsType[*domain.Refusal](err); {
	case errors.As(err, new(*domain.TooEarlyError)):
		e.delay(h, s)
		return nil
	case refusal != nil && refusal.Code == domain.PaymentNotFound:
		reason = ParkedUnknownPayment
	case errors.As(err, new(*eventstore.CorruptError)):
		reason = ParkedUnreadable
	default:
		return err
	}
	h.dequeue(s)
	return e.park(h, parking{signal: s, reason: reason, detail: err.Error()})
}

// park hands a signal that has left its queue, or was never in one, to the parker.
func (e *Enforcer) park(h inflight, k parking) error {
	if e.parker.put(h, k) {
		return nil
	}
	e.noteShed(k.signal)
	return e.acknowledge(h, k.signal)
}

// noteShed counts and logs a signal that there is no room for. It is taken out
// of SIGNALS without an answer, so that its sender sends it again.
func (e *Enforcer) noteShed(s *signal) {
	e.sheds.Inc()
	e.shedLog.Error().Str("route", s.route).Str("subject", s.subject).
		Msg("more signals wait than there is room for; this one is dropped without an answer, so that its sender sends it again: " +
			"see what floods the route, and payledger_signals_in_hand and payledger_parking_up")
}

// delay judges a signal again after a pause, which grows with the number of
// signals that wait.
func (e *Enforcer) delay(h inflight, s *signal) {
	b := &s.early
	b.Next = min(max(2*b.Next, e.times.EarlyFirst), e.times.EarlyMost)
	h.delay(s, b.Next+time.Duration(h.delayed())*e.times.EarlyEach)
}

// close answers and acknowledges a signal that has left its queue.
func (e *Enforcer) close(h inflight, s *signal, reply domain.SignalReply) error {
	e.judged.WithLabelValues(reply.Result).Inc()
	if reply.Result == domain.SignalRefused {
		e.countRefusal(s, reply)
	}
	if err := e.answer(s, reply); err != nil {
		return err
	}
	return e.acknowledge(h, s)
}

// acknowledge finishes a signal and takes it out of SIGNALS.
func (e *Enforcer) acknowledge(h inflight, s *signal) error {
	e.progress.Add(1)
	ack := h.finish(s)
	if ack == "" {
		h.finishedAhead.Put(s.sequence)
		return nil
	}
	if err := e.config.Conn.NATS().Publish(ack, []byte(ackWord)); err != nil {
		return fmt.Errorf("acknowledging a signal: %w", err)
	}
	return nil
}

// replyTo is the reply to a signal that was recorded.
func replyTo(event domain.Event, id domain.ID, at eventstore.Position) domain.SignalReply {
	f := domain.FactsOf(event)
	reply := domain.SignalReply{Result: f.Result, EventID: &id, Position: uint64(at)}
	if f.Result != domain.SignalApplied {
		reply.Reason = f.Reason
	}
	return reply
}

// answer publishes the reply on the subject that the sender asked for. A sender
// that does not get it sends the signal again.
func (e *Enforcer) answer(s *signal, reply domain.SignalReply) error {
	if s.mute {
		e.mute.Inc()
	}
	if s.replyTo == "" {
		return nil
	}
	data, err := json.Marshal(reply)
	if err != nil {
		return fmt.Errorf("encoding the answer to a signal: %w", err)
	}
	if err := e.config.Conn.NATS().Publish(s.replyTo, data); err != nil {
		return fmt.Errorf("answering a signal: %w", err)
	}
	return nil
}
