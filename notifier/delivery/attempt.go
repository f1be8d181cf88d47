package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/tracing"
	"payledger/notifier/delivery/store"
	"payledger/notifier/health"
	"payledger/notifier/webhook"
)

// classInternal is the class of an attempt that failed on our side.
const classInternal webhook.Class = "internal"

// outcome is how an attempt ended, and when it began by the wall clock.
type outcome struct {
	webhook.Outcome
	at domain.Instant
}

func (o outcome) object() domain.AttemptObject {
	return domain.AttemptObject{
		At: o.at, Status: o.Status, Error: string(o.Class), DurationMS: o.Duration.Milliseconds(), Answer: string(o.Answer),
	}
}

// attempt makes one try and records how it ended. If the engine ends meanwhile,
// nothing is recorded, and the same event is sent again after the next start.
func (l *Lanes) attempt(ctx context.Context, a attempt) {
	t := a.target
	late := time.AfterFunc(slowAfter, func() { l.slots.late(t) })
	o, err := l.send(ctx, a)
	l.slots.over(t, !late.Stop())
	t.ended(a)
	if err != nil {
		return
	}
	l.metrics.attempted(o, a.Record, l.wallNow())
	var failingFor time.Duration
	var change notice
	record := func(x *tx) error {
		failingFor, change = x.judge(a, o)
		return x.record(a, o)
	}
	if l.writer.insist(ctx, record, maxSettleDelay) != nil {
		return // the writer has failed, and Run returns its error
	}
	about := func(e *zerolog.Event) *zerolog.Event {
		return e.Str("project", t.project).Str("endpoint", t.id)
	}
	switch change {
	case noticePaused:
		about(l.config.Log.Warn()).Str("outcome", string(o.Class)).Int("status", o.Status).
			Msg("a webhook endpoint fails again and again: its notifications wait, and one is tried from time to time")
	case noticeResumed:
		about(l.config.Log.Info()).Msg("a webhook endpoint takes notifications again")
	case noticeRefused:
		about(l.config.Log.Warn()).Msg("a webhook endpoint is at an address that may not be called: its notifications are parked")
	}
	switch {
	case o.Gone:
		l.disable(ctx, t, projects.DisabledGone)
	case failingFor >= domain.MaxFailingTime:
		l.disable(ctx, t, projects.DisabledFailing)
	}
	t.nudge()
}

// notice is a change of an endpoint's state that is logged once, not at every
// attempt.
type notice int

const (
	noticePaused  notice = iota + 1 // the circuit breaker has opened
	noticeResumed                   // and closed
	noticeRefused                   // its target may not be called
)

// send renders and sends one notification. An error means that there is no
// outcome: the engine or the event log is ending.
func (l *Lanes) send(ctx context.Context, a attempt) (outcome, error) {
	l.metrics.inFlight.Inc()
	defer l.metrics.inFlight.Dec()
	at := l.config.Now()
	o := outcome{at: domain.InstantOf(at)}
	body, trace, err := l.render(ctx, a.target, a.Record)
	var secrets []string
	if err == nil {
		secrets, err = l.secrets(a.endpoint, domain.InstantOf(at))
	}
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, eventstore.ErrClosed) || errors.As(err, new(*eventstore.FatalError)) {
			return o, err
		}
		logTrace(l.config.Log.Error(), trace).Err(err).Str("endpoint", a.target.id).Stringer("event", a.Event).Msg("a notification could not be made; it is tried again")
		o.Class = classInternal
		return o, nil
	}
	span := l.config.Tracer.Follow(tracing.Client, trace, "POST webhook")
	o.Outcome = l.config.Sender.Send(ctx, webhook.Request{
		URL: a.endpoint.URL, ID: a.Event.String(), Attempt: a.number, At: at, Body: body, Secrets: secrets, Trace: span.Traceparent(trace),
	})
	if span.Recorded() {
		endSpan(span, a, o.Outcome)
	}
	if o.Class == webhook.ClassCancelled {
		return o, context.Canceled
	}
	logTrace(l.config.Log.Debug(), trace).Str("project", a.target.project).Str("endpoint", a.target.id).Stringer("event", a.Event).
		Int("attempt", a.number).Int("status", o.Status).Str("error", string(o.Class)).Dur("took_ms", o.Duration).Msg("a notification was sent")
	return o, nil
}

func logTrace(e *zerolog.Event, t domain.Traceparent) *zerolog.Event {
	if t == "" {
		return e
	}
	return e.Str("trace_id", t.Trace())
}

func (l *Lanes) secrets(e projects.Endpoint, at domain.Instant) ([]string, error) {
	var all []string
	for _, s := range e.Secrets(at) {
		secret, err := l.Secret(e.ID, s)
		if err != nil {
			return nil, err
		}
		all = append(all, secret)
	}
	return all, nil
}

// render makes the body of a delivery from the log: the same bytes each time. trace
// is that of its event.
func (l *Lanes) render(ctx context.Context, t *target, d store.Record) (body []byte, trace domain.Traceparent, err error) {
	n := webhook.Notification{EventID: d.Event, Kind: d.Kind, At: domain.IDTime(d.Event)}
	if d.Kind == domain.KindEndpointTest {
		n.Endpoint = t.id
		body, err = webhook.Body(d.Render, n)
		return body, "", err
	}
	n.Sequence, n.Position = d.Sequence, uint64(d.Position)
	p := domain.Payment{Project: t.project, ID: d.Payment}
	for r, err := range l.config.Ledger.Store.Load(ctx, eventstore.PaymentStream(t.project, d.Payment)) {
		if err != nil {
			return nil, "", err
		}
		event, err := l.config.Ledger.Codec.Event(r)
		if err != nil {
			return nil, "", err
		}
		p = p.Evolve(event)
		if r.Sequence < d.Sequence {
			continue
		}
		if r.Commit != d.Event || r.Position != d.Position {
			break
		}
		if refund := domain.FactsOf(event).Refund; !refund.IsZero() {
			if of, ok := p.Refund(refund); ok {
				object := of.Object(p.ID)
				n.Refund = &object
			}
		} else {
			object := p.Object()
			n.Payment = &object
		}
		body, err = webhook.Body(d.Render, n)
		return body, eventstore.CauseOf(r.Body).Trace, err
	}
	return nil, "", fmt.Errorf("the event log has no event %s at position %d, sequence %d of payment %s", d.Event, d.Position, d.Sequence, d.Payment)
}

// disable stops notifications to an endpoint, for good until its owner or the
// operator enables it.
func (l *Lanes) disable(ctx context.Context, t *target, why projects.DisabledReason) {
	defer func() {
		t.mu.Lock()
		t.leaving = false
		t.mu.Unlock()
	}()
	var disabled bool
	err := health.Persist(ctx, func() error {
		event := l.config.IDs.Next()
		r, err := eventstore.Execute(ctx, l.config.Ledger, eventstore.ProjectStream(t.project), projects.Project{ID: t.project},
			projects.ProjectCommand(projects.DisableEndpoint{At: domain.IDTime(event), EndpointID: t.id, Reason: why}),
			eventstore.Order{EventID: event})
		disabled = r.Event != nil
		return err
	})
	switch {
	case err == nil && disabled:
		l.metrics.disabled.WithLabelValues(string(why)).Inc()
		l.config.Log.Warn().Str("project", t.project).Str("endpoint", t.id).Str("reason", string(why)).
			Msg("a webhook endpoint was disabled; what was pending for it stays listed")
	case err != nil && ctx.Err() == nil:
		l.config.Log.Error().Err(err).Str("endpoint", t.id).Msg("a webhook endpoint could not be disabled")
	}
}
