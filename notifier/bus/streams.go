package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
)

// logIDKey is the metadata of a JetStream stream that names the log it
// belongs to.
const logIDKey = "payledger-log"

// The disk space for signals, waiting and parked. When that of waiting ones is full, or one payment
// has MaxPaymentSignals waiting through one route, JetStream refuses new ones and connectors
// resend; of parked ones the oldest are dropped.
const (
	MaxSignalBytes    = 1 << 30
	MaxPaymentSignals = 64
	maxParkedBytes    = 1 << 30
)

// subjectsOverlap is the JetStream API's error code for a new JetStream stream
// whose subjects another one takes already.
const subjectsOverlap jetstream.ErrorCode = 10065

// duplicateWindow is as short as it can be: a sender that repeats a signal wants
// another answer, even if the Nats-Msg-Id is the same.
const duplicateWindow = 100 * time.Millisecond

// streamConfig is what the JetStream streams of a log have in common: nothing in them is limited.
func streamConfig(log domain.ID, name, description string, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: description, Subjects: subjects, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Discard: jetstream.DiscardOld, Duplicates: duplicateWindow, Metadata: map[string]string{logIDKey: log.String()},
	}
}

// EventsConfig is that of EVENTS for a log.
func EventsConfig(log domain.ID) jetstream.StreamConfig {
	c := streamConfig(log, EventsStream, "The event log of payledger; a message's sequence is its event's position.", EventsSubjects)
	c.Discard, c.DenyDelete, c.DenyPurge = jetstream.DiscardNew, true, true
	return c
}

// SignalsConfig is that of SIGNALS for a log. It takes the signals of the sandbox and
// of these routes.
func SignalsConfig(log domain.ID, routes []string) jetstream.StreamConfig {
	subjects := []string{RouteSignals(domain.SandboxRoute)}
	for _, route := range routes {
		subjects = append(subjects, RouteSignals(route))
	}
	slices.Sort(subjects)
	c := streamConfig(log, SignalsStream, "Providers' signals to payledger until they are judged.", slices.Compact(subjects)...)
	c.Retention, c.Discard, c.DiscardNewPerSubject = jetstream.WorkQueuePolicy, jetstream.DiscardNew, true
	c.MaxBytes, c.MaxMsgsPerSubject, c.MaxMsgSize = MaxSignalBytes, MaxPaymentSignals, MaxSignal
	return c
}

// ParkedConfig is that of PARKED for a log.
func ParkedConfig(log domain.ID) jetstream.StreamConfig {
	c := streamConfig(log, ParkedStream, "Signals payledger could not judge, kept for the operator.", ParkedSubject)
	c.MaxBytes, c.Duplicates = maxParkedBytes, time.Minute
	return c
}

// ForeignStreamError: a JetStream stream of an external server is not the one
// this log would have made. Nothing is published to it and nothing read from
// it until the operator has decided.
type ForeignStreamError struct {
	Stream string
	Reason string
}

func (e *ForeignStreamError) Error() string {
	return fmt.Sprintf("the JetStream stream %s on this NATS server does not belong to this data directory: %s; "+
		"use another NATS server or account, or, if it is not needed, delete the JetStream stream and it is recreated",
		e.Stream, e.Reason)
}

// OpenStream finds the JetStream stream or makes it. One that is not of this
// log, or keeps its messages by other rules, is made anew on the embedded server,
// and a *ForeignStreamError otherwise.
func OpenStream(ctx context.Context, c *Conn, want jetstream.StreamConfig) (jetstream.Stream, error) {
	s, reason, err := find(ctx, c, want)
	if err != nil || reason == "" {
		return s, err
	}
	if !c.Embedded() {
		return nil, &ForeignStreamError{Stream: want.Name, Reason: reason}
	}
	return RemakeStream(ctx, c, want)
}

// find finds the JetStream stream or makes it. reason says how one that was there is unlike it.
func find(ctx context.Context, c *Conn, want jetstream.StreamConfig) (s jetstream.Stream, reason string, err error) {
	s, err = c.JetStream().Stream(ctx, want.Name)
	switch {
	case err == nil:
		reason = unlike(s.CachedInfo().Config, want)
	case errors.Is(err, jetstream.ErrStreamNotFound):
		s, err = createStream(ctx, c, want)
	default:
		err = fmt.Errorf("looking for the JetStream stream %s: %w", want.Name, err)
	}
	return s, reason, err
}

// MakeStreams makes all JetStream streams of a log that are not there yet.
func MakeStreams(ctx context.Context, c *Conn, log domain.ID) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, want := range []jetstream.StreamConfig{EventsConfig(log), checkpointsConfig(log)} {
		all.Go(func() error {
			_, err := OpenStream(ctx, c, want)
			return err
		})
	}
	all.Go(func() error {
		_, err := OpenSignals(ctx, c, log, nil)
		return err
	})
	all.Go(func() error {
		_, err := OpenParked(ctx, c, ParkedConfig(log))
		return err
	})
	return all.Wait()
}

// OpenSignals finds SIGNALS or makes it. It takes the signals of these routes, and still those of
// every route that it took before: a payment may still be open there. What waits in it stays, and
// the rest is as with OpenStream.
func OpenSignals(ctx context.Context, c *Conn, log domain.ID, routes []string) (jetstream.Stream, error) {
	s, err := c.JetStream().Stream(ctx, SignalsStream)
	if err != nil {
		return OpenStream(ctx, c, SignalsConfig(log, routes)) // it makes it, or says what is wrong
	}
	got, before := s.CachedInfo().Config, SignalRoutes(s.CachedInfo().Config)
	want := SignalsConfig(log, slices.Concat(routes, before))
	same := want // but for what is changed below
	same.Subjects = got.Subjects
	switch {
	case unlike(got, same) != "":
		return OpenStream(ctx, c, SignalsConfig(log, routes))
	case len(before) < len(got.Subjects), unlike(got, want) == "":
		return OpenStream(ctx, c, want)
	}
	want.Replicas, want.Placement = got.Replicas, got.Placement
	if s, err = c.JetStream().UpdateStream(ctx, want); err != nil {
		return nil, fmt.Errorf("changing what the JetStream stream %s takes: %w", SignalsStream, err)
	}
	return s, nil
}

// SignalRoutes are the routes whose signals SIGNALS takes.
func SignalRoutes(c jetstream.StreamConfig) (routes []string) {
	for _, subject := range c.Subjects {
		rest, ok := strings.CutPrefix(subject, SignalsPrefix)
		if route, _, more := strings.Cut(rest, "."); ok && more && domain.ValidRoute(route) {
			routes = append(routes, route)
		}
	}
	return routes
}

// OpenParked finds PARKED, makes it, or brings one of an earlier version to what
// it is now, with all that is in it. On an external server one that was not made
// for this log is a *ForeignStreamError.
func OpenParked(ctx context.Context, c *Conn, want jetstream.StreamConfig) (jetstream.Stream, error) {
	s, reason, err := find(ctx, c, want)
	if err != nil || reason == "" {
		return s, err
	}
	got := s.CachedInfo().Config
	if !c.Embedded() && got.Metadata[logIDKey] != want.Metadata[logIDKey] {
		return nil, &ForeignStreamError{Stream: ParkedStream, Reason: reason}
	}
	want.Replicas, want.Placement, want.Storage = got.Replicas, got.Placement, got.Storage
	if s, err = c.JetStream().UpdateStream(ctx, want); err != nil {
		return nil, fmt.Errorf("changing the JetStream stream %s, since %s: %w", ParkedStream, reason, err)
	}
	return s, nil
}

// RemakeStream deletes the JetStream stream and creates it again.
func RemakeStream(ctx context.Context, c *Conn, want jetstream.StreamConfig) (jetstream.Stream, error) {
	if err := c.JetStream().DeleteStream(ctx, want.Name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("deleting the JetStream stream %s: %w", want.Name, err)
	}
	return createStream(ctx, c, want)
}

func createStream(ctx context.Context, c *Conn, want jetstream.StreamConfig) (jetstream.Stream, error) {
	want.Replicas = c.Replicas()
	s, err := c.JetStream().CreateStream(ctx, want)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == subjectsOverlap {
		return nil, &ForeignStreamError{Stream: want.Name, Reason: "another JetStream stream takes its subjects"}
	}
	if err != nil {
		return nil, fmt.Errorf("making the JetStream stream %s: %w", want.Name, err)
	}
	return s, nil
}

// unlike says in which way a JetStream stream could lose or change what we
// put in, empty if it could not. Replicas and placement are the operator's.
func unlike(got, want jetstream.StreamConfig) string {
	switch id := got.Metadata[logIDKey]; {
	case id == "":
		return "it was not made by payledger"
	case id != want.Metadata[logIDKey]:
		return "it holds the log " + id + ", this is " + want.Metadata[logIDKey]
	case !slices.Equal(got.Subjects, want.Subjects):
		return "its subjects were changed"
	case got.Retention != want.Retention, got.MaxAge != want.MaxAge, got.Discard != want.Discard,
		got.MaxMsgs != want.MaxMsgs, got.MaxBytes != want.MaxBytes,
		got.MaxMsgsPerSubject != want.MaxMsgsPerSubject, got.DiscardNewPerSubject != want.DiscardNewPerSubject, got.MaxMsgSize != want.MaxMsgSize:
		return "its limits were changed"
	case got.SubjectTransform != nil, got.Mirror != nil, len(got.Sources) > 0:
		return "it takes messages from elsewhere"
	case got.Storage != want.Storage, got.Sealed, got.NoAck:
		return "its storage was changed"
	}
	return ""
}
