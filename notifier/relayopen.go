package notifier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"payledger/eventstore"
)

// open finds or makes the JetStream stream EVENTS and answers the position up
// to which it holds the log.
func (r *Relay) open(ctx context.Context) (jetstream.Stream, eventstore.Position, error) {
	conn := r.config.Conn
	want := eventsConfig(r.config.LogID)
	if conn.Embedded() {
		// What a crash takes from the copy is copied again.
		want.PersistMode = jetstream.AsyncPersistMode
	}
	stream, err := openStream(ctx, conn.js, want, conn.Embedded())
	if err != nil {
		return nil, 0, err
	}
	from, reason, err := r.compare(ctx, stream)
	if err == nil && reason == "" && 0 < r.suspect && r.suspect <= from {
		_, reason, err = r.compareRange(ctx, stream, r.suspect-1, r.suspect)
	}
	if err != nil {
		return nil, 0, err
	}
	if reason != "" {
		if !conn.Embedded() {
			return nil, 0, &ForeignStreamError{Stream: EventsStream, Reason: reason}
		}
		r.config.Log.Warn().Str("reason", reason).Msg("the copy of the log in JetStream is made anew")
		r.rebuilt.Inc()
		if stream, err = remakeStream(ctx, conn.js, want); err != nil {
			return nil, 0, err
		}
		from = 0
	}
	r.suspect, r.swept = 0, sweep{}
	if conn.Embedded() {
		r.readers.keep(ctx, stream)
	}
	conn.isCopy(stream.CachedInfo().Created)
	return stream, from, nil
}

// compare checks the copy against the log. reason says why it is not one;
// err, that this cannot be told now.
func (r *Relay) compare(ctx context.Context, stream jetstream.Stream) (from eventstore.Position, reason string, err error) {
	info, err := stream.Info(ctx)
	if err != nil {
		return 0, "", fmt.Errorf("looking at the JetStream stream %s: %w", EventsStream, err)
	}
	last, err := r.config.Store.Last(ctx)
	if err != nil {
		return 0, "", err
	}
	s := info.State
	from = eventstore.Position(s.LastSeq)
	switch {
	case from > last:
		return 0, fmt.Sprintf("it holds %d events, the log has %d: was the log restored from a backup?", from, last), nil
	case from == 0:
		return 0, "", nil
	case s.FirstSeq != 1 || s.Msgs != s.LastSeq:
		return 0, fmt.Sprintf("it holds %d of the first %d events only", s.Msgs, s.LastSeq), nil
	}
	// The last message alone would not do: behind one that somebody else wrote
	// into EVENTS, those of ours that were under way could still be taken, since
	// they expect a number only. So many are compared that it must be among them.
	const tail = 2 * inFlight
	_, reason, err = r.compareRange(ctx, stream, from-min(from, tail), from)
	return from, reason, err
}

// compareRange checks the messages after one position up to another against
// their records, and answers the first that is not its record, and why; 0 when
// all are.
func (r *Relay) compareRange(ctx context.Context, stream jetstream.Stream, after, to eventstore.Position) (bad eventstore.Position, reason string, err error) {
	reasons := make([]string, to-after)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for record, err := range r.config.Store.Scan(ctx, after, eventstore.Filter{}) {
		if err != nil {
			return 0, "", errors.Join(err, g.Wait())
		}
		if record.Position > to {
			break
		}
		g.Go(func() (err error) {
			reasons[record.Position-after-1], err = compareOne(gctx, stream, record)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, "", err
	}
	for i, reason := range reasons {
		if reason != "" {
			return after + 1 + eventstore.Position(i), reason, nil
		}
	}
	return 0, "", nil
}

func compareOne(ctx context.Context, stream jetstream.Stream, record eventstore.Stored) (reason string, err error) {
	msg, err := stream.GetMsg(ctx, uint64(record.Position))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return fmt.Sprintf("its event %d is missing", record.Position), nil
	case err != nil:
		return "", fmt.Errorf("reading the JetStream stream %s: %w", EventsStream, err)
	case msg.Subject != EventSubject(record.Stream) || !bytes.Equal(msg.Data, record.Body):
		return fmt.Sprintf("its event %d is not the one in the log", record.Position), nil
	}
	return "", nil
}

// doubted looks whether EVENTS holds the event that a consumer could not read,
// and answers its position and in which way it does not; 0 when it does.
func (r *Relay) doubted(ctx context.Context, stream jetstream.Stream) (bad eventstore.Position, reason string, err error) {
	p := eventstore.Position(r.config.Conn.doubted.Swap(0))
	if p == 0 || p > r.Position() {
		return 0, "", nil
	}
	return r.compareRange(ctx, stream, p-1, p)
}

// sweep is a slow comparison of all of EVENTS with the log. JetStream skips a
// message that it cannot read; of ours only the newest are read, so subscribers
// would miss an old one and nobody would notice.
type sweep struct {
	upTo  eventstore.Position // compared in this pass; 0: none is under way
	began time.Time           // the last pass
}

// sweepAtOnce events are compared at each look at an idle JetStream stream.
const sweepAtOnce = 512

// sweepOn compares the next events, and answers like doubted. Those that cannot
// be compared now are left for the next pass.
func (r *Relay) sweepOn(ctx context.Context, stream jetstream.Stream) (bad eventstore.Position, reason string) {
	w, last := &r.swept, r.Position()
	if w.upTo == 0 {
		if last == 0 || time.Since(w.began) < r.times.sweep {
			return 0, ""
		}
		w.began = time.Now()
	}
	after := w.upTo
	if w.upTo = min(after+sweepAtOnce, last); w.upTo == last {
		defer func() { w.upTo = 0 }()
	}
	bad, reason, err := r.compareRange(ctx, stream, after, w.upTo)
	if err != nil && ctx.Err() == nil {
		r.config.Log.Debug().Err(err).Msg("some of the JetStream stream " + EventsStream + " could not be compared with the log")
	}
	return bad, reason
}
