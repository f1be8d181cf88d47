package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/tracing"
	"payledger/notifier/health"
	"payledger/notifier/webhook"
)

// classInternal is the class of an attempt that failed on our side.
const classInternal webhook.Class = deliveries.ClassInternal

// attempt makes one try and records how it ended. If the sender ends meanwhile,
// nothing is recorded, and the same event is sent again by the next one.
func (s *sender) attempt(ctx context.Context, a attempt) {
	t := a.target
	late := time.AfterFunc(slowAfter, func() { s.slots.late(t) })
	o, err := s.send(ctx, a)
	s.slots.over(t, !late.Stop())
	t.ended(a)
	if err != nil {
		return
	}
	if o.Gone { // of a receiver that is no longer the endpoint's, it is a try that failed
		now, _, err := s.find(ctx, t.project, t.id)
		o.Gone = err != nil || now.URL == a.endpoint.URL
	}
	s.metrics.attempted(o, a.Delivery, s.wallNow())
	s.answers.put(answerKey{t.id, a.Event, a.Total + 1}, string(o.Answer))
	end, says := s.judge(a, o)
	record := func(x *tx) error {
		x.note(t, end)
		x.ended = append(x.ended, a.lane())
		return nil
	}
	if s.writer.insist(ctx, record) != nil {
		return // the writer has failed, and Run returns its error
	}
	if says != "" {
		level := zerolog.WarnLevel
		if o.Delivered {
			level = zerolog.InfoLevel
		}
		s.config.Log.WithLevel(level).Str("project", t.project).Str("endpoint", t.id).Str("outcome", string(o.Class)).Int("status", o.Status).Msg(says)
	}
	switch {
	case o.Gone:
		s.disable(ctx, a, projects.DisabledGone)
	case !o.Delivered && s.config.Rows.Endpoint(t.id).FailingFor(s.clock.now()) >= domain.MaxFailingTime:
		s.disable(ctx, a, projects.DisabledFailing)
	}
	t.nudge()
}

// judge is what an attempt that ended means for its delivery and its endpoint, and what
// is to be said of that: not of every attempt, but when the endpoint's state changes.
func (s *sender) judge(a attempt, o webhook.Outcome) (end deliveries.Entry, says string) {
	now, tries := s.clock.now(), a.Tries+1
	if a.probe {
		tries--
	}
	wait, more := s.config.Schedule.Next(tries, s.config.Random(), o.RetryAfter)
	end = deliveries.Entry{
		Payment: a.Payment, Sequence: a.Sequence, Class: string(o.Class), Status: o.Status, Took: o.Duration.Milliseconds(),
	}
	switch {
	case o.Delivered:
		end.What = deliveries.Delivered
	case o.Refused:
		end.What = deliveries.Parked
	case o.Gone:
		end.What = deliveries.Gone
	case !more:
		end.What = deliveries.GivenUp
	case a.probe:
		end.What, end.Wait = deliveries.Probed, max(until(a.due, now), o.RetryAfter, 0).Milliseconds()
	default:
		end.What, end.Wait = deliveries.Failed, wait.Milliseconds()
	}
	t := a.target
	t.mu.Lock()
	defer t.mu.Unlock()
	if o.Refused && !t.refused {
		says = "a webhook endpoint is at an address that may not be called: its notifications are parked"
	}
	if t.refused = o.Refused; o.Refused || o.Class == webhook.ClassUnsigned || o.Class == classInternal {
		if !a.requested {
			t.breaker.abandoned() // it says nothing about the endpoint
		}
		return end, says
	}
	if t.failures++; o.Delivered {
		t.failures = 0
	}
	t.leaving = t.leaving || o.Gone
	before := t.breaker.until
	t.breaker.ended(now, t.failures, s.config.Random(), a.requested)
	switch open := t.breaker.until; {
	case open != 0 && before == 0:
		says = "a webhook endpoint fails again and again: its notifications wait, and one is tried from time to time"
	case open == 0 && before != 0:
		says = "a webhook endpoint takes notifications again"
	}
	if t.breaker.until > max(before, now) {
		end.Pause = until(t.breaker.until, now).Milliseconds()
	}
	return end, says
}

// send renders and sends one notification. An error means that there is no
// outcome: the sender or the event log is ending.
func (s *sender) send(ctx context.Context, a attempt) (o webhook.Outcome, err error) {
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	at := s.config.Now()
	body, trace, err := s.render(ctx, a.target, a.Delivery)
	var secrets []string
	if err == nil {
		secrets, err = s.secrets(a.endpoint, domain.InstantOf(at))
	}
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, eventstore.ErrClosed) || errors.As(err, new(*eventstore.FatalError)) {
			return o, err
		}
		logTrace(s.config.Log.Error(), trace).Err(err).Str("endpoint", a.target.id).Stringer("event", a.Event).Msg("a notification could not be made; it is tried again")
		o.Class = classInternal
		return o, nil
	}
	span := s.config.Tracer.Follow(tracing.Client, trace, "POST webhook")
	timed := ctx
	if s.config.Shared { // the next sender counts from the event on
		var cancel context.CancelFunc
		timed, cancel = context.WithDeadline(ctx, a.began.Add(requestTime))
		defer cancel()
	}
	o = s.config.Sender.Send(timed, webhook.Request{
		URL: a.endpoint.URL, ID: a.Event.String(), Attempt: a.Total + 1, At: at, Body: body, Secrets: secrets, Trace: span.Traceparent(trace),
	})
	if o.Class == webhook.ClassCancelled && ctx.Err() == nil {
		o.Class, o.Duration = webhook.ClassTimeout, time.Since(a.began)
	}
	if span.Recorded() {
		endSpan(span, a, o)
	}
	if o.Class == webhook.ClassCancelled {
		return o, context.Canceled
	}
	logTrace(s.config.Log.Debug(), trace).Str("project", a.target.project).Str("endpoint", a.target.id).Stringer("event", a.Event).
		Int("attempt", a.Total+1).Int("status", o.Status).Str("error", string(o.Class)).Dur("took_ms", o.Duration).Msg("a notification was sent")
	return o, nil
}

func logTrace(e *zerolog.Event, t domain.Traceparent) *zerolog.Event {
	if t == "" {
		return e
	}
	return e.Str("trace_id", t.Trace())
}

// secrets are those that sign now, newest first. Old ones are left out that cannot be made.
func (s *sender) secrets(e projects.Endpoint, at domain.Instant) ([]string, error) {
	var all []string
	for _, one := range e.Secrets(at) {
		secret, err := s.Secret(e.ID, one)
		switch {
		case err == nil:
			all = append(all, secret)
		case one == e.Secret:
			return nil, err
		default:
			s.seldom.Error().Err(err).Str("endpoint", e.ID).
				Msg("notifications are signed without an old secret that is still in force: receivers that do not have the newest one yet refuse them")
		}
	}
	return all, nil
}

// render makes the body of a delivery from the log: the same bytes each time. trace
// is that of its event.
func (s *sender) render(ctx context.Context, t *target, d deliveries.Delivery) (body []byte, trace domain.Traceparent, err error) {
	n := webhook.Notification{EventID: d.Event, Kind: d.Kind, At: domain.IDTime(d.Event)}
	if d.Kind == domain.KindEndpointTest {
		n.Data = webhook.Tested{EndpointID: t.id}
		body, err = webhook.Body(n)
		return body, "", err
	}
	n.Sequence, n.Position = d.Sequence, d.Position
	p := domain.Payment{Project: t.project, ID: d.Payment}
	for r, err := range s.config.Ledger.Codec.Events(s.config.Ledger.Store.Load(ctx, eventstore.PaymentStream(t.project, d.Payment))) {
		if err != nil {
			return nil, "", err
		}
		p = p.Evolve(r.Event)
		if r.Sequence < d.Sequence {
			continue
		}
		if r.Commit != d.Event || r.Position != eventstore.Position(d.Position) {
			break
		}
		n.Data = p.Object()
		if refund := domain.FactsOf(r.Event).Refund; !refund.IsZero() {
			of, ok := p.Refund(refund)
			if !ok {
				break
			}
			n.Data = of.Object(p.ID)
		}
		body, err = webhook.Body(n)
		return body, eventstore.CauseOf(r.Body).Trace, err
	}
	return nil, "", fmt.Errorf("the event log has no event %s at position %d, sequence %d of payment %s", d.Event, d.Position, d.Sequence, d.Payment)
}

// disable stops notifications to the endpoint of an attempt, for good until its owner or the
// operator enables it, unless it has another URL by now.
func (s *sender) disable(ctx context.Context, a attempt, why projects.DisabledReason) {
	t := a.target
	defer func() {
		t.mu.Lock()
		t.leaving = false
		t.mu.Unlock()
	}()
	var disabled bool
	err := health.Persist(ctx, func() error {
		event := s.config.IDs.Next()
		r, err := eventstore.Execute(ctx, s.config.Ledger, eventstore.ProjectStream(t.project), projects.Project{ID: t.project},
			projects.ProjectCommand(projects.DisableEndpoint{At: domain.IDTime(event), EndpointID: t.id, Reason: why, CalledAt: a.endpoint.URL}),
			eventstore.Order{EventID: event})
		disabled = r.Event != nil
		return err
	})
	switch {
	case err == nil && disabled:
		s.metrics.disabled.WithLabelValues(string(why)).Inc()
		s.config.Log.Warn().Str("project", t.project).Str("endpoint", t.id).Str("reason", string(why)).
			Msg("a webhook endpoint was disabled; what was pending for it stays listed")
	case err != nil && ctx.Err() == nil:
		s.config.Log.Error().Err(err).Str("endpoint", t.id).Msg("a webhook endpoint could not be disabled")
	}
}
