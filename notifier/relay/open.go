package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"payledger/eventstore"
	"payledger/notifier/bus"
)

// open finds or makes the JetStream stream EVENTS and returns the position up
// to which it holds the log.
func (r *Relay) open(ctx context.Context) (jetstream.Stream, eventstore.Position, error) {
	conn := r.config.Conn
	want := bus.EventsConfig(r.config.LogID)
	if conn.Embedded() && conn.Replicas() == 1 {
		// What a crash takes from the copy is copied again.
		want.PersistMode = jetstream.AsyncPersistMode
	}
	stream, err := bus.OpenStream(ctx, conn, want)
	if err != nil {
		return nil, 0, err
	}
	from, reason, err := r.compare(ctx, stream)
	if err == nil && reason == "" && 0 < r.suspect && r.suspect <= from {
		reason, err = first(r.compareRange(ctx, stream, r.suspect-1, r.suspect))
	}
	if err != nil {
		return nil, 0, err
	}
	if reason != "" {
		if !conn.Embedded() {
			return nil, 0, &bus.ForeignStreamError{Stream: bus.EventsStream, Reason: reason}
		}
		r.config.Log.Warn().Str("reason", reason).Msg("the copy of the log in JetStream is rebuilt")
		r.rebuilt.Inc()
		if stream, err = bus.RemakeStream(ctx, conn, want); err != nil {
			return nil, 0, err
		}
		from = 0
	}
	r.suspect, r.swept = 0, sweep{}
	if conn.Embedded() {
		r.readers.Keep(ctx, stream)
	}
	return stream, from, nil
}

// compare checks the copy against the log. reason says why it is not a copy; an
// error means that this cannot be decided now.
func (r *Relay) compare(ctx context.Context, stream jetstream.Stream) (from eventstore.Position, reason string, err error) {
	info, err := stream.Info(ctx)
	if err != nil {
		return 0, "", fmt.Errorf("looking at the JetStream stream %s: %w", bus.EventsStream, err)
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
	// The last message is not enough: after a foreign one in EVENTS, those of ours in flight could
	// still be accepted, since they expect only a number. Enough are compared for the foreign one to
	// be among them.
	const tail = 2 * bus.PublishAhead
	reason, err = first(r.compareRange(ctx, stream, from-min(from, tail), from))
	return from, reason, err
}

// mismatch is an event that EVENTS does not hold as the log does.
type mismatch struct {
	at      eventstore.Position
	reason  string
	differs bool // there is another in its place
}

func first(all []mismatch, err error) (reason string, _ error) {
	if len(all) > 0 {
		reason = all[0].reason
	}
	return reason, err
}

// compareRange checks the messages after one position up to another against
// their records.
func (r *Relay) compareRange(ctx context.Context, stream jetstream.Stream, after, to eventstore.Position) ([]mismatch, error) {
	all := make([]mismatch, to-after)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for record, err := range r.config.Store.Scan(ctx, after, eventstore.Filter{}) {
		if err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		if record.Position > to {
			break
		}
		g.Go(func() (err error) {
			all[record.Position-after-1], err = compareOne(gctx, stream, record)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(m mismatch) bool { return m.reason == "" }), nil
}

func compareOne(ctx context.Context, stream jetstream.Stream, record eventstore.Stored) (mismatch, error) {
	msg, err := stream.GetMsg(ctx, uint64(record.Position))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return mismatch{record.Position, fmt.Sprintf("its event %d is missing", record.Position), false}, nil
	case err != nil:
		return mismatch{}, fmt.Errorf("reading the JetStream stream %s: %w", bus.EventsStream, err)
	case !bytes.Equal(msg.Data, record.Body):
		return mismatch{record.Position, fmt.Sprintf("its event %d is not the one in the log", record.Position), true}, nil
	}
	typ, err := eventstore.TypeOf(record.Body)
	if want := bus.EventSubject(record.Stream.Project, typ); err == nil && msg.Subject != want {
		return mismatch{record.Position, fmt.Sprintf("its event %d is on the subject %s, where an older payledger published it, and not on %s", record.Position, msg.Subject, want), false}, nil
	}
	return mismatch{}, nil
}

// sweep is a slow comparison of all of EVENTS with the log. JetStream skips a message that it
// cannot read; we read only the newest ones, so subscribers would miss an old one unnoticed.
type sweep struct {
	upTo    eventstore.Position // compared in this pass; 0: none is under way
	began   time.Time           // the last pass
	missing []mismatch          // the first in this pass
	unclear bool                // the log itself may be damaged
}

// sweepAtOnce events are compared at each check of an idle JetStream stream.
const sweepAtOnce = 512

// sweepOn compares the next events, and at the end of a pass returns the first one that EVENTS
// lacks. It returns none if in the pass an event differed or could not be compared: JetStream has
// checksums too, so the log may be damaged and EVENTS the only good copy, which payledger restore
// --then takes.
func (r *Relay) sweepOn(ctx context.Context, stream jetstream.Stream) []mismatch {
	w, last := &r.swept, r.Position()
	if w.upTo == 0 {
		if last == 0 || time.Since(w.began) < r.times.Sweep {
			return nil
		}
		*w = sweep{began: time.Now()}
	}
	after := w.upTo
	w.upTo = min(after+sweepAtOnce, last)
	found, err := r.compareRange(ctx, stream, after, w.upTo)
	if err != nil {
		w.unclear = true
		r.config.Log.Debug().Err(err).Msg("some of the JetStream stream " + bus.EventsStream + " could not be compared with the log")
	}
	for _, m := range found {
		if m.differs {
			w.unclear = true
			r.config.Log.Error().Uint64("position", uint64(m.at)).Msg("the log and its copy in the JetStream stream " + bus.EventsStream +
				" differ, so one of them was altered: stop the server, keep a copy of nats/, and run payledger verify")
			break
		}
		if len(w.missing) == 0 {
			w.missing = []mismatch{m}
		}
	}
	if w.upTo < last {
		return nil
	}
	w.upTo = 0
	if w.unclear {
		return nil
	}
	return w.missing
}
