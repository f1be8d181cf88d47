package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// Copied describes JetStream's EVENTS.
type Copied struct {
	Log    domain.ID           // whose copy it is
	Last   eventstore.Position // of the last event, according to JetStream
	Events uint64              // that could be read
}

const (
	readsAtOnce = 64
	readChunk   = 4096
	readTries   = 8
	readWaits   = 250 * time.Millisecond
	readPatient = 20 * time.Second // with an external server
)

// ReadEvents calls each for the messages of EVENTS in order, and changes nothing:
// it makes no consumer. It leaves out messages that JetStream cannot read or that
// are not the event of their position. body is valid until each returns. The
// error says that the stream as a whole cannot be read, or that the server is
// away.
func ReadEvents(ctx context.Context, c *Conn, told func(done, total eventstore.Position), each func(at eventstore.Position, body []byte) error) (Copied, error) {
	stream, info, err := findEvents(ctx, c)
	if err != nil {
		return Copied{}, err
	}
	var out Copied
	out.Log, _ = domain.ParseID(info.Config.Metadata[logIDKey])
	out.Last = eventstore.Position(info.State.LastSeq)
	bodies := make([][]byte, readChunk)
	for from := info.State.FirstSeq; from <= info.State.LastSeq && info.State.LastSeq > 0; from += readChunk {
		clear(bodies)
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(readsAtOnce)
		for i := range min(readChunk, info.State.LastSeq-from+1) {
			g.Go(func() (err error) {
				bodies[i], err = readEvent(gctx, stream, from+i)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return out, err
		}
		for i, body := range bodies {
			if body == nil {
				continue
			}
			out.Events++
			if err := each(eventstore.Position(from)+eventstore.Position(i), body); err != nil {
				return out, err
			}
		}
		told(min(eventstore.Position(from)+readChunk-1, out.Last), out.Last)
	}
	return out, nil
}

// findEvents waits for a server that still reads its directory.
func findEvents(ctx context.Context, c *Conn) (s jetstream.Stream, info *jetstream.StreamInfo, err error) {
	patience := readPatient
	if c.Embedded() {
		patience = EmbeddedStart
	}
	for deadline := time.Now().Add(patience); ; {
		if s, err = c.JetStream().Stream(ctx, EventsStream); err == nil {
			info, err = s.Info(ctx)
		}
		switch {
		case err == nil:
			return s, info, nil
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, nil, fmt.Errorf("there is no JetStream stream %s", EventsStream)
		case time.Now().After(deadline), ctx.Err() != nil:
			return nil, nil, fmt.Errorf("looking for the JetStream stream %s: %w", EventsStream, err)
		}
		health.Pause(ctx, readWaits)
	}
}

// readEvent returns the body of a message, nil if there is none that is the
// event at its position.
func readEvent(ctx context.Context, s jetstream.Stream, sequence uint64) ([]byte, error) {
	for try := 1; ; try++ {
		msg, err := s.GetMsg(ctx, sequence)
		switch {
		case err == nil:
			if !strings.HasPrefix(msg.Subject, EventsPrefix) || msg.Header.Get(HeaderPosition) != fmt.Sprint(sequence) {
				return nil, nil
			}
			return msg.Data, nil
		case errors.As(err, new(*jetstream.APIError)), errors.Is(err, jetstream.ErrMsgNotFound):
			return nil, nil // it is gone, or damaged
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case try == readTries:
			return nil, fmt.Errorf("reading event %d of the JetStream stream %s: %w", sequence, EventsStream, err)
		}
		health.Pause(ctx, readWaits*time.Duration(try))
	}
}
