package notifier

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

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
	if err != nil {
		return nil, 0, err
	}
	if reason = cmp.Or(reason, r.damage); reason != "" {
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
	r.damage, r.swept = "", sweep{}
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
	bad, err := r.compareRange(ctx, stream, from-min(from, tail), from)
	if len(bad) > 0 {
		reason = bad[0].reason
	}
	return from, reason, err
}

// mismatch is an event that EVENTS does not hold as the log does.
type mismatch struct {
	at      eventstore.Position
	reason  string
	differs bool // there is another in its place
}

// compareRange checks the messages after one position up to another against
// their records.
func (r *Relay) compareRange(ctx context.Context, stream jetstream.Stream, after, to eventstore.Position) (bad []mismatch, err error) {
	read := r.readAtOnce(ctx, stream, after, to)
	for record, err := range r.config.Store.Scan(ctx, after, eventstore.Filter{}) {
		if err != nil {
			return nil, err
		}
		if record.Position > to {
			break
		}
		if m := read[record.Position]; m != nil && compareOne(record, m.Subject(), m.Data()) == (mismatch{}) {
			continue
		}
		var found mismatch
		msg, err := stream.GetMsg(ctx, uint64(record.Position))
		switch {
		case err == nil:
			found = compareOne(record, msg.Subject, msg.Data)
		case errors.Is(err, jetstream.ErrMsgNotFound):
			found = mismatch{record.Position, fmt.Sprintf("its event %d is missing", record.Position), false}
		default:
			return nil, fmt.Errorf("reading the JetStream stream %s: %w", bus.EventsStream, err)
		}
		if found.reason != "" {
			bad = append(bad, found)
		}
	}
	return bad, nil
}

// readAtOnce reads messages of a range with a consumer that ends by itself: a request for each makes
// five times the garbage. It may leave out any, so each that is missing or differs has to be asked for.
// Where several servers keep EVENTS it reads none: a consumer may read another copy than that of the leader.
func (r *Relay) readAtOnce(ctx context.Context, stream jetstream.Stream, after, to eventstore.Position) map[eventstore.Position]jetstream.Msg {
	if r.config.Conn.Replicas() > 1 {
		return nil
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(after) + 1,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Second,
	})
	if err != nil {
		return nil
	}
	batch, err := consumer.FetchNoWait(int(to - after))
	if err != nil {
		return nil
	}
	read := make(map[eventstore.Position]jetstream.Msg, to-after)
	for m := range batch.Messages() {
		if at, err := m.Metadata(); err == nil {
			read[eventstore.Position(at.Sequence.Stream)] = m
		}
	}
	return read
}

// compareOne compares the message at a record's position with the record.
func compareOne(record eventstore.Stored, subject string, body []byte) mismatch {
	if !bytes.Equal(body, record.Body) {
		return mismatch{record.Position, fmt.Sprintf("its event %d is not the one in the log", record.Position), true}
	}
	typ, err := eventstore.TypeOf(record.Body)
	if want := bus.EventSubject(record.Stream.Project, typ); err == nil && subject != want {
		return mismatch{record.Position, fmt.Sprintf("its event %d is on the subject %s, where an older payledger published it, and not on %s", record.Position, subject, want), false}
	}
	return mismatch{}
}

// sweep is a slow comparison of all of EVENTS with the log. JetStream skips a message that it
// cannot read; we read only the newest ones, so subscribers would miss an old one unnoticed.
type sweep struct {
	upTo    eventstore.Position // compared in this pass; 0: none is under way
	began   time.Time           // the last pass
	missing string              // the first in this pass
	unclear bool                // the log itself may be damaged
}

// sweepAtOnce events are compared at each check of an idle JetStream stream.
const sweepAtOnce = 512

// sweepOn compares the next events, and at the end of a pass says which one EVENTS
// lacks first. It says nothing if in the pass an event differed or could not be compared: JetStream has
// checksums too, so the log may be damaged and EVENTS the only good copy, which payledger restore
// --then takes.
func (r *Relay) sweepOn(ctx context.Context, stream jetstream.Stream) (missing string) {
	w, last := &r.swept, r.Position()
	if w.upTo == 0 {
		if last == 0 || time.Since(w.began) < r.times.Sweep {
			return ""
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
		w.missing = cmp.Or(w.missing, m.reason)
	}
	if w.upTo < last {
		return ""
	}
	w.upTo = 0
	if w.unclear {
		return ""
	}
	return w.missing
}
