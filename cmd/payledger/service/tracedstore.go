package service

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"

	"payledger/eventstore"
	"payledger/eventstore/tracing"
)

// tracedStore is the log, with a span for each commit whose event is part of a
// trace, from when it was decided until it is durable.
type tracedStore struct {
	eventstore.Store
	tracer *tracing.Tracer
}

// traced is the store itself without a tracer.
func traced(s eventstore.Store, t *tracing.Tracer) eventstore.Store {
	if t == nil {
		return s
	}
	return tracedStore{s, t}
}

// Arrive implements eventstore.Confirmer.
func (s tracedStore) Arrive(soon bool) func(context.Context) error {
	return eventstore.Arrive(s.Store, soon)
}

// Append implements eventstore.Store.
func (s tracedStore) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	spans := make([]tracing.Span, len(commits))
	for i, c := range commits {
		spans[i] = s.tracer.Follow(tracing.Internal, eventstore.CauseOf(c.Record.Body).Trace, "commit")
	}
	done := s.Store.Append(ctx, commits...)
	for i, span := range spans {
		if !span.Recorded() {
			continue
		}
		record := commits[i].Record
		about := []attribute.KeyValue{tracing.Event.String(commits[i].ID.String()), tracing.Project.String(record.Stream.Project)}
		if record.Event != nil {
			span.Name("commit " + record.Event.Type())
			about = append(about, tracing.EventType.String(record.Event.Type()))
		}
		if record.Stream.Kind == eventstore.KindPayment {
			about = append(about, tracing.Payment.String(record.Stream.ID))
		}
		if done[i].Err == nil {
			about = append(about, tracing.Position.Int64(int64(done[i].Position)))
		}
		span.End(commitFailure(done[i].Err), about...)
	}
	return done
}

// commitFailure is a short code for why a commit failed; "": it did not.
func commitFailure(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.As(err, new(*eventstore.ConflictError)):
		return "conflict"
	case errors.As(err, new(*eventstore.ClaimedError)):
		return "claimed"
	case errors.Is(err, eventstore.ErrBusy):
		return "busy"
	case errors.Is(err, eventstore.ErrFull):
		return "full"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "cancelled"
	}
	return "failed"
}
