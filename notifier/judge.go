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
	"golang.org/x/sync/errgroup"

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

// work judges what is ready, all of it at once, so that one sync of the log
// carries what it leads to. The error is the context's or ends the enforcer's
// work; then the signals stay in SIGNALS.
func (e *Enforcer) work(ctx context.Context, h hand) error {
	var signals []*signal
	for {
		signals = h.ready.takeAll(ctx, signals[:0], signalsAtOnce)
		for pauses := storePause(); len(signals) > 0; {
			var wait bool
			var err error
			if signals, wait, err = e.judge(ctx, h, signals); err != nil {
				return err
			}
			if wait {
				pauses.wait(ctx)
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// hand is what the enforcer has in hand, and who sees to what is not judged
// with the others.
type hand struct {
	*lanes

	aside *errgroup.Group
}

// judge decides on signals of different payments. It answers those to be tried
// again, and whether after a pause; the others are done with, or somebody sees
// to them.
func (e *Enforcer) judge(ctx context.Context, h hand, signals []*signal) (again []*signal, wait bool, err error) {
	commits, of := make([]eventstore.Commit, 0, len(signals)), make([]judged, 0, len(signals))
	for _, s := range signals {
		c, event, err := e.decide(ctx, s)
		switch {
		case err != nil:
			err = e.refused(ctx, h, s, err)
		case event != nil:
			commits, of = append(commits, c), append(of, judged{s, event})
		default:
			err = e.close(h, s, domain.SignalReply{Result: domain.SignalUnchanged})
		}
		if err != nil {
			return nil, false, err
		}
	}
	for i, done := range e.config.Ledger.Store.AppendAll(ctx, commits) {
		s, err := of[i].signal, done.Err
		switch later := passes(err); {
		case err == nil:
			err = e.close(h, s, replyTo(of[i].event, commits[i].ID, done.Position))
		case later, errors.As(err, new(*eventstore.ConflictError)):
			again, wait, err = append(again, s), wait || later, nil
		default:
			err = e.refused(ctx, h, s, err)
		}
		if err != nil {
			return nil, false, err
		}
	}
	return again, wait, ctx.Err()
}

// judged is a signal and the event that it leads to.
type judged struct {
	signal *signal
	event  domain.Event
}

// decide answers what is to be recorded of a signal, if anything.
func (e *Enforcer) decide(ctx context.Context, s *signal) (c eventstore.Commit, event domain.Event, err error) {
	if s.malformed != nil {
		return c, nil, s.malformed
	}
	f, err := e.folds.of(ctx, e.config.Ledger, s.project, s.payment)
	if err != nil {
		return c, nil, err
	}
	if event, err = f.Decide(f.command(s.says)); err != nil || event == nil {
		if errors.As(err, new(*domain.UnrecordedError)) {
			f.unrecorded++
		}
		return c, nil, err
	}
	c, err = e.config.Ledger.Commit(eventstore.PaymentStream(s.project, s.payment), f.last, event,
		eventstore.Order{EventID: e.config.IDs.Next()})
	return c, event, err
}

// refused sees to a signal that cannot be judged, or not yet. An error that is
// not about the signal is answered.
func (e *Enforcer) refused(ctx context.Context, h hand, s *signal, err error) error {
	var refusal *domain.Refusal
	var unrecorded *domain.UnrecordedError
	var reason string
	switch {
	case s.malformed != nil:
		reason = ParkedMalformed
	case errors.As(err, new(*domain.TooEarlyError)):
		h.aside.Go(func() error { return e.wait(ctx, h, s) })
		return nil
	case errors.As(err, &unrecorded):
		e.unrecorded.Inc()
		return e.close(h, s, domain.SignalReply{Result: domain.SignalRefused, Reason: unrecorded.Reason, Unrecorded: true})
	case errors.As(err, &refusal) && refusal.Code == domain.PaymentNotFound:
		reason = ParkedUnknownPayment
	case errors.As(err, new(*eventstore.CorruptError)):
		reason = ParkedUnreadable
	default:
		return err
	}
	h.aside.Go(func() error {
		if err := e.park(ctx, s, reason, err); err != nil {
			return err
		}
		return e.close(h, s, domain.SignalReply{Result: domain.SignalParked, Reason: reason})
	})
	return nil
}

// wait has a signal judged again a little later.
func (e *Enforcer) wait(ctx context.Context, h hand, s *signal) error {
	e.waiting.Add(1)
	defer e.waiting.Add(-1)
	s.early.first, s.early.most = e.times.earlyFirst, e.times.earlyMost
	if !s.early.wait(ctx) {
		return ctx.Err()
	}
	h.ready.put(s)
	return nil
}

// close ends a signal: answer, acknowledgement. The next of its payment may
// come.
func (e *Enforcer) close(h hand, s *signal, reply domain.SignalReply) error {
	e.judged.WithLabelValues(reply.Result).Inc()
	if reply.Result == domain.SignalRefused {
		e.countRefusal(s, reply.Reason)
	}
	if err := e.answer(s, reply); err != nil {
		return err
	}
	if err := s.Ack(); err != nil {
		return fmt.Errorf("acknowledging a signal: %w", err)
	}
	h.done(s)
	e.moved.Add(1)
	return nil
}

// replyTo tells what a signal led to.
func replyTo(event domain.Event, id domain.ID, at eventstore.Position) domain.SignalReply {
	reply := domain.SignalReply{Result: domain.SignalApplied, EventID: &id, Position: uint64(at)}
	switch event := event.(type) {
	case domain.PaymentSignalRefused:
		reply.Result, reply.Reason = domain.SignalRefused, event.Reason
	case domain.PaymentLateFunds:
		reply.Result, reply.Reason = domain.SignalLateFunds, event.Reason
	}
	return reply
}

// answer publishes the reply where the sender asked for it. What is lost on
// the way is asked for again.
func (e *Enforcer) answer(msg *signal, reply domain.SignalReply) error {
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
func (e *Enforcer) park(ctx context.Context, msg *signal, reason string, why error) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("reading the JetStream stream %s: %w", SignalsStream, err)
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
			return fmt.Errorf("parking a signal: %w", err) // PARKED is made anew
		}
		if b.next == 0 && ctx.Err() == nil {
			e.config.Log.Error().Err(err).Msg("a signal cannot be parked; it is tried until it can")
		}
		if !b.wait(ctx) {
			return ctx.Err()
		}
	}
	e.parked.WithLabelValues(reason).Inc()
	e.config.Log.Warn().Str("reason", reason).Err(why).Str("subject", msg.Subject()).
		Msg("a signal could not be judged and is kept in the JetStream stream " + ParkedStream)
	return nil
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
