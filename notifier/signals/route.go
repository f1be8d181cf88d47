package signals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/health"
)

const (
	// maxBatch bounds the signals of a route that are judged together.
	maxBatch = 256
	// maxRound bounds the time for deciding on a batch; the rest of it waits for the
	// next round. Some payments have long streams.
	maxRound = 20 * time.Millisecond
	// The pause before a signal is tried again is a fraction of its age, within
	// these.
	retryFirst, retryMost = 10 * time.Millisecond, 10 * time.Second
	retryPart             = 4
)

// route judges the signals of one route in the order in which they came.
type route struct {
	*Enforcer

	name     string
	consumer jetstream.Consumer
	arrived  chan *signal
	states   map[eventstore.Stream]*cachedState
	unacked  atomic.Int64 // signals delivered and not finished when watch last looked, without those finished since
}

// newRoute goes on with the states of the route's last reading, which has ended: they count what is
// recorded nowhere.
func (e *Enforcer) newRoute(name string, consumer jetstream.Consumer) *route {
	if e.states[name] == nil {
		e.states[name] = make(map[eventstore.Stream]*cachedState)
	}
	return &route{Enforcer: e, name: name, consumer: consumer, arrived: make(chan *signal, maxBatch), states: e.states[name]}
}

// take reads the route's signals.
func (r *route) take(ctx context.Context) error {
	messages, err := r.consumer.Messages(jetstream.PullMaxMessages(maxBatch),
		jetstream.PullExpiry(30*time.Second), jetstream.PullHeartbeat(r.times.Heartbeat))
	if err != nil {
		return fmt.Errorf("reading the JetStream stream %s: %w", bus.SignalsStream, err)
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("reading the JetStream stream %s: %w", bus.SignalsStream, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("reading the JetStream stream %s: %w", bus.SignalsStream, err)
		}
		if meta.NumDelivered == 1 {
			r.progress.Add(1)
		}
		s := newSignal(msg.Subject(), meta.Sequence.Stream, meta.Timestamp, msg.Data(), msg.Headers())
		s.ack = msg.Reply()
		if meta.NumPending > r.backlog {
			if err := r.drop(s); err != nil {
				return err
			}
			continue
		}
		select {
		case r.arrived <- s:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// judge judges the signals that have come in batches, so that one sync of the log
// serves many.
func (r *route) judge(ctx context.Context) error {
	var batch []*signal
	pauses := health.StorePause()
	for {
		if len(batch) == 0 {
			select {
			case s := <-r.arrived:
				batch = append(batch, s)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for full := false; !full && len(batch) < maxBatch; {
			select {
			case s := <-r.arrived:
				batch = append(batch, s)
			default:
				full = true
			}
		}
		busy, err := r.round(ctx, batch)
		switch {
		case err != nil:
			return err
		case busy:
			pauses.Wait(ctx)
		default:
			pauses.Reset()
		}
		batch = slices.DeleteFunc(batch, func(s *signal) bool { return s.done })
	}
}

// decision is a signal and the event that it leads to.
type decision struct {
	signal *signal
	event  domain.Event
}

// round decides on each payment's signals in the batch up to the first that records an
// event, and appends the events. What is left for the next round is not done. busy: the
// store asks for a pause.
func (r *route) round(ctx context.Context, batch []*signal) (busy bool, err error) {
	var commits []eventstore.Commit
	var of []decision
	deciding := make(map[eventstore.Stream]bool) // an event is to be appended
	confirm := eventstore.Arrive(r.config.Ledger.Store, false)
	for i, began := 0, time.Now(); i < len(batch) && (i == 0 || time.Since(began) < maxRound); i++ {
		s := batch[i]
		if deciding[s.stream()] {
			continue
		}
		c, event, err := r.decide(ctx, s)
		var unrecorded *domain.UnrecordedError
		switch refusal, _ := errors.AsType[*domain.Refusal](err); {
		case err == nil && event != nil:
			deciding[s.stream()] = true
			commits, of = append(commits, c), append(of, decision{s, event})
		case err == nil:
			err = r.close(s, domain.SignalReply{Result: domain.SignalUnchanged})
		case errors.As(err, &unrecorded):
			err = r.close(s, domain.SignalReply{Result: domain.SignalRefused, Reason: unrecorded.Reason, Unrecorded: true})
		case errors.As(err, new(*domain.TooEarlyError)):
			err = r.retry(s)
		case s.malformed != nil:
			err = r.park(ctx, s, ParkedMalformed, err)
		case refusal != nil && refusal.Code == domain.PaymentNotFound && confirm(ctx) != nil:
			err = r.retry(s) // this node may not have the payment yet
		case refusal != nil && refusal.Code == domain.PaymentNotFound:
			err = r.park(ctx, s, ParkedUnknownPayment, err)
		case errors.As(err, new(*eventstore.CorruptError)):
			err = r.park(ctx, s, ParkedUnreadable, err)
		}
		if err != nil {
			return false, err
		}
		s.done = event == nil
	}
	if len(commits) == 0 {
		return false, ctx.Err()
	}
	for i, done := range r.config.Ledger.Store.Append(ctx, commits...) {
		s, err := of[i].signal, done.Err
		if claimed, ok := errors.AsType[*eventstore.ClaimedError](err); ok {
			s.taken, err = r.holderIn(claimed.Value)
		} else {
			s.done = err == nil
		}
		switch {
		case s.done:
			err = r.close(s, replyTo(of[i].event, commits[i].ID, done.Position))
		case health.Passes(err):
			busy, err = true, nil
		case errors.As(err, new(*eventstore.ConflictError)):
			err = nil
		case errors.As(err, new(*eventstore.CorruptError)):
			s.done, err = true, r.park(ctx, s, ParkedUnreadable, err)
		}
		if err != nil {
			return false, err
		}
	}
	return busy, ctx.Err()
}

// decide returns the event that a signal leads to, nil for none.
func (r *route) decide(ctx context.Context, s *signal) (c eventstore.Commit, event domain.Event, err error) {
	if s.malformed != nil {
		return c, nil, s.malformed
	}
	f, err := r.fold(ctx, s)
	if err != nil {
		return c, nil, err
	}
	cmd := domain.ApplySignal{Signal: s.says, Reason: s.said.Reason, EvidenceDueBy: s.said.EvidenceDueBy, Unrecorded: f.unrecorded}
	if h := s.taken; h != nil {
		// The reference belongs to another payment, to late funds of this one that are no longer in its
		// state, or to another refund or return.
		if h.stream == s.stream() && h.says.RefundID == nil {
			cmd.Earlier = &h.says
		} else {
			cmd.ReferenceUsed = true
		}
	}
	if event, err = f.Decide(cmd); err != nil || event == nil {
		if errors.As(err, new(*domain.UnrecordedError)) {
			f.unrecorded++
		}
		return c, nil, err
	}
	c, err = r.config.Ledger.Commit(s.stream(), f.last, event, eventstore.Order{EventID: r.config.IDs.Next(), Cause: f.cause})
	if err != nil {
		return c, nil, err
	}
	return c, event, nil
}

// The states of long streams are cached, so that one more signal costs the same after any number of
// them.
const (
	maxStates      = 256
	minFoldRecords = 32 // a shorter stream is read again as quickly
)

// fold folds the signal's payment up to the end of its stream.
func (r *route) fold(ctx context.Context, s *signal) (*cachedState, error) {
	f := r.states[s.stream()]
	if f == nil {
		f = &cachedState{Payment: domain.Payment{Project: s.project, ID: s.payment}}
	}
	delete(r.states, s.stream()) // after an error half of it may have been folded
	f, last, err := eventstore.FoldAfter(ctx, r.config.Ledger, s.stream(), f, f.last)
	if err != nil {
		return nil, err
	}
	if last.Body != nil {
		f.cause.Trace = eventstore.CauseOf(last.Body).Trace
	}
	last.Body, last.Event = nil, nil
	if f.last = last; last.Sequence > minFoldRecords {
		if len(r.states) >= maxStates {
			clear(r.states)
		}
		r.states[s.stream()] = f
	}
	return f, nil
}

// cachedState is the payment by which signals are judged: its stream folded up to last.
type cachedState struct {
	domain.Payment

	last       eventstore.Stored // without its body
	cause      eventstore.Cause  // the trace of last
	unrecorded uint64            // refused since the last refusal that was recorded
}

// Evolve changes f itself, which has one owner.
func (f *cachedState) Evolve(e domain.Event) *cachedState {
	f.Payment = f.Payment.Evolve(e)
	if _, ok := e.(domain.PaymentSignalRefused); ok {
		f.unrecorded = 0
	}
	return f
}

// park moves a signal that cannot be judged to PARKED, or has it tried again while PARKED cannot be
// written.
func (r *route) park(ctx context.Context, s *signal, reason string, why error) error {
	if !r.parker.park(ctx, s, reason, why.Error()) {
		return r.retry(s)
	}
	return r.close(s, domain.SignalReply{Result: domain.SignalParked, Reason: reason})
}

// retry has JetStream deliver the signal again: the older it is the later, so that many
// of them cost little.
func (r *route) retry(s *signal) error {
	if r.unacked.Load() > int64(r.backlog) {
		return r.drop(s)
	}
	pause := min(max(time.Since(s.stored)/retryPart, retryFirst), retryMost)
	return r.respond(s, fmt.Appendf(nil, `-NAK {"delay":%d}`, pause))
}

// drop removes an excess signal from SIGNALS without an answer, so that its sender sends it again.
func (r *route) drop(s *signal) error {
	r.sheds.Inc()
	r.shedLog.Error().Str("route", s.route).Str("subject", s.subject).
		Msg("more signals of the route wait than fit; this one is dropped without an answer, so that its sender sends it again: " +
			"see what floods the route, and payledger_signals_waiting and payledger_parking_up")
	return r.acknowledge(s)
}

// close answers and acknowledges a signal.
func (r *route) close(s *signal, reply domain.SignalReply) error {
	r.judged.WithLabelValues(reply.Result).Inc()
	if reply.Result == domain.SignalRefused {
		r.countRefusal(s, reply)
	}
	if s.mute {
		r.mute.Inc()
	}
	if s.replyTo != "" {
		data, err := json.Marshal(reply)
		if err != nil {
			return fmt.Errorf("encoding the answer to a signal: %w", err)
		}
		// A sender that does not get it sends the signal again.
		if err := r.config.Conn.NATS().Publish(s.replyTo, data); err != nil {
			return fmt.Errorf("answering a signal: %w", err)
		}
	}
	return r.acknowledge(s)
}

// acknowledge takes a signal out of SIGNALS.
func (r *route) acknowledge(s *signal) error {
	r.progress.Add(1)
	r.unacked.Add(-1)
	return r.respond(s, []byte("+ACK"))
}

// respond acknowledges a delivered signal to JetStream, or asks for it again.
func (r *route) respond(s *signal, word []byte) error {
	if err := r.config.Conn.NATS().Publish(s.ack, word); err != nil {
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
