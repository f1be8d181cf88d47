package notifier

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/acquirer"
)

// Reasons for parking, as they are answered and counted.
const (
	ParkedMalformed      = "malformed"       // no signal, or not on the subject of one
	ParkedUnknownPayment = "unknown_payment" // the project has no such payment
	ParkedUnreadable     = "unreadable"      // the payment's own record is damaged
)

// Headers of a parked signal, beside those it came with.
const (
	headerParkedReason  = "Payledger-Parked-Reason"
	headerParkedDetail  = "Payledger-Parked-Detail"
	headerParkedSubject = "Payledger-Parked-Subject" // it was published on
)

// judge takes one signal to its end: command, answer, acknowledgement. The
// error is the context's or ends the enforcer's work; then the signal stays in
// SIGNALS.
func (e *Enforcer) judge(ctx context.Context, msg jetstream.Msg, s slots) error {
	reply, err := e.decide(ctx, msg, s)
	if err != nil {
		return err
	}
	e.judged.WithLabelValues(reply.Result).Inc()
	if err := e.answer(msg, reply); err != nil {
		return err
	}
	if err := msg.Ack(); err != nil {
		return fmt.Errorf("acknowledging a signal: %w", err)
	}
	return nil
}

func (e *Enforcer) decide(ctx context.Context, msg jetstream.Msg, s slots) (domain.SignalReply, error) {
	route, project, payment, err := signalAddress(msg.Subject())
	if err != nil {
		return e.park(ctx, msg, ParkedMalformed, err)
	}
	signal, err := acquirer.Decode(route, msg.Data())
	if err != nil {
		return e.park(ctx, msg, ParkedMalformed, err)
	}
	r, err := e.apply(ctx, project, payment, signal, s)
	var refusal *domain.Refusal
	switch {
	case err == nil:
		return replyTo(r), nil
	case errors.As(err, &refusal) && refusal.Code == domain.PaymentNotFound:
		return e.park(ctx, msg, ParkedUnknownPayment, err)
	case errors.As(err, new(*eventstore.CorruptError)):
		return e.park(ctx, msg, ParkedUnreadable, err)
	default:
		return domain.SignalReply{}, err
	}
}

// apply runs the command, again while the payment has no route.
func (e *Enforcer) apply(ctx context.Context, project string, payment domain.ID, signal domain.Signal, s slots) (eventstore.Result[domain.Payment], error) {
	early := backoff{first: e.times.earlyFirst, most: e.times.earlyMost}
	for {
		if !s.acquire(ctx) {
			return eventstore.Result[domain.Payment]{}, ctx.Err()
		}
		r, err := execute(ctx, e.config.Ledger, e.config.IDs, project, payment, false,
			func(domain.ID) domain.PaymentCommand { return domain.ApplySignal{Signal: signal} })
		s.release()
		if !errors.As(err, new(*domain.TooEarlyError)) {
			return r, err
		}
		e.waiting.Add(1)
		alive := early.wait(ctx)
		e.waiting.Add(-1)
		if !alive {
			return eventstore.Result[domain.Payment]{}, ctx.Err()
		}
	}
}

// replyTo tells what a signal led to.
func replyTo(r eventstore.Result[domain.Payment]) domain.SignalReply {
	if r.Event == nil {
		return domain.SignalReply{Result: domain.SignalUnchanged}
	}
	reply := domain.SignalReply{
		Result: domain.SignalApplied, EventID: &r.Stored.Commit, Position: uint64(r.Stored.Position),
	}
	switch event := r.Event.(type) {
	case domain.PaymentSignalRefused:
		reply.Result, reply.Reason = domain.SignalRefused, event.Reason
	case domain.PaymentLateFunds:
		reply.Result, reply.Reason = domain.SignalLateFunds, event.Reason
	}
	return reply
}

// answer publishes the reply where the sender asked for it. What is lost on
// the way is asked for again.
func (e *Enforcer) answer(msg jetstream.Msg, reply domain.SignalReply) error {
	subject := replySubject(msg.Headers())
	if subject == "" {
		if len(msg.Headers()[acquirer.ReplyHeader]) > 0 {
			e.mute.Inc()
		}
		return nil
	}
	data, err := json.Marshal(reply)
	if err != nil {
		return fmt.Errorf("encoding the answer to a signal: %w", err)
	}
	if err := e.config.Conn.nc.Publish(subject, data); err != nil {
		return fmt.Errorf("answering a signal: %w", err)
	}
	return nil
}

// park keeps a signal aside, however long that takes.
func (e *Enforcer) park(ctx context.Context, msg jetstream.Msg, reason string, why error) (domain.SignalReply, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return domain.SignalReply{}, fmt.Errorf("reading the JetStream stream %s: %w", SignalsStream, err)
	}
	parked := &nats.Msg{
		Subject: parkedSubject,
		Header: nats.Header{
			headerParkedReason:  {reason},
			headerParkedDetail:  {oneLine(why.Error())},
			headerParkedSubject: {msg.Subject()},
			// A crash before the acknowledgement parks it again: recognised
			// for as long as JetStream remembers.
			jetstream.MsgIDHeader: {fmt.Sprintf("%d-%d", meta.Timestamp.UnixNano(), meta.Sequence.Stream)},
		},
		Data: msg.Data(),
	}
	if v := msg.Headers()[acquirer.ReplyHeader]; len(v) > 0 {
		parked.Header[acquirer.ReplyHeader] = v
	}
	b := backoff{first: 100 * time.Millisecond, most: 5 * time.Second}
	for {
		_, err := e.config.Conn.js.PublishMsg(ctx, parked)
		if err == nil {
			break
		}
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			return domain.SignalReply{}, fmt.Errorf("parking a signal: %w", err) // PARKED is made anew
		}
		if b.next == 0 && ctx.Err() == nil {
			e.config.Log.Error().Err(err).Msg("a signal cannot be parked; it is tried until it can")
		}
		if !b.wait(ctx) {
			return domain.SignalReply{}, ctx.Err()
		}
	}
	e.parked.WithLabelValues(reason).Inc()
	e.config.Log.Warn().Str("reason", reason).Err(why).Str("subject", msg.Subject()).
		Msg("a signal could not be judged and is kept in the JetStream stream " + ParkedStream)
	return domain.SignalReply{Result: domain.SignalParked, Reason: reason}, nil
}

// oneLine makes a text fit for a header.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, s)
}
