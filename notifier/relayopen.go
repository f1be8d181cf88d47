package notifier

import (
	"bytes"
	"context"
	"errors"
	"fmt"

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
	if err != nil {
		return nil, 0, err
	}
	if reason == "" {
		reason = r.damaged
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
	r.damaged = ""
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
	reason, err = r.compareTail(ctx, stream, from)
	return from, reason, err
}

// compareTail checks the last messages against their records. The last alone
// would not do: behind a message that somebody else wrote into EVENTS, those
// of ours that were under way could still be taken, since they expect a number
// only. So many are compared that it must be among them.
func (r *Relay) compareTail(ctx context.Context, stream jetstream.Stream, from eventstore.Position) (reason string, err error) {
	const tail = 2 * inFlight
	after := from - min(from, tail)
	reasons := make([]string, from-after)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for record, err := range r.config.Store.Scan(ctx, after, eventstore.Filter{}) {
		if err != nil {
			return "", errors.Join(err, g.Wait())
		}
		if record.Position > from {
			break
		}
		g.Go(func() (err error) {
			reasons[record.Position-after-1], err = compareOne(gctx, stream, record)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	for _, reason := range reasons {
		if reason != "" {
			return reason, nil
		}
	}
	return "", nil
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

// doubted looks whether EVENTS holds the event that a consumer could not read.
// reason says in which way it does not.
func (r *Relay) doubted(ctx context.Context, stream jetstream.Stream) (reason string, err error) {
	p := eventstore.Position(r.config.Conn.doubted.Swap(0))
	if p == 0 || p > r.Position() {
		return "", nil
	}
	for record, err := range r.config.Store.Scan(ctx, p-1, eventstore.Filter{}) {
		if err != nil {
			return "", err
		}
		return compareOne(ctx, stream, record)
	}
	return "", nil
}
