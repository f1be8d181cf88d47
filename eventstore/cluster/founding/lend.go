package founding

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster/wire"
)

// VerbRecords ends the subject at which a node whose file follows no LOG yet asks for the
// records that it lacks of those that LOG begins behind:
//
//	position (8), where LOG begins (8), asker -> the records behind it up to there
//	as a message without a number
//
// A node that does not know LOG yet names 0 for where it begins. Only a file that follows no
// LOG answers it: all that this file has is in front of LOG.
const VerbRecords = ".records"

const (
	lendTime  = 3 * time.Second
	lendBytes = 256 << 10 // of an answer
	// arriveEvery is how often the peers are asked again for what no one had.
	arriveEvery = 200 * time.Millisecond
)

// Lend answers the other nodes' requests for records of the file of a node that serves
// alone, until stop is called or ctx ends, so that little is missing when LOG is founded.
// asked is called with the position at which a peer's file ends.
func Lend(ctx context.Context, c *nats.Conn, log domain.ID, node string, file *bolt.Store, asked func(peer string, at eventstore.Position)) (stop func() error, err error) {
	sub, err := c.Subscribe(Nodes(log)+node+VerbRecords, func(m *nats.Msg) {
		if at, _, peer, ok := wantedRecords(m.Data); ok {
			asked(string(peer), at)
		}
		_ = m.Respond(Behind(ctx, file, m.Data))
	})
	if err != nil {
		return nil, err
	}
	return sub.Unsubscribe, nil
}

// Nodes is how the subjects of the nodes of a LOG begin.
func Nodes(log domain.ID) string { return "payledger.node." + log.String() + "." }

func wantedRecords(request []byte) (behind, upTo eventstore.Position, asker []byte, ok bool) {
	from, request, _ := wire.Number(request)
	to, asker, ok := wire.Number(request)
	return eventstore.Position(from), eventstore.Position(to), asker, ok
}

// Behind answers a request for records; empty: it cannot.
func Behind(ctx context.Context, file *bolt.Store, request []byte) []byte {
	at, upTo, _, ok := wantedRecords(request)
	if !ok {
		return nil
	}
	g, err := file.After(ctx, at, bolt.MaxGroupCommits, lendBytes)
	if err != nil {
		return nil
	}
	if upTo == 0 { // What was read before the file followed LOG is in front of it.
		if r, err := file.Replica(); err != nil || !r.Log.IsZero() {
			return nil
		}
		return wire.EncodeGroup(g)
	}
	g.Records = g.Records[:min(uint64(len(g.Records)), uint64(max(upTo, at)-at))]
	return wire.EncodeGroup(g)
}

// Arrival is a node whose file may lack records that LOG begins behind.
type Arrival struct {
	File   *bolt.Store
	Conn   *nats.Conn
	Node   string
	Peers  []string
	LOG    domain.ID
	Report func(error) // is called with what keeps it waiting
}

// extend adds to the file what it lacks of a peer's, up to where LOG begins; 0: there is
// no LOG yet. False: no peer has more, or none answers. The error is a *bolt.MismatchError
// if the file of every peer that answers goes on from another record, or ends before this
// one.
func (a Arrival) extend(ctx context.Context, upTo eventstore.Position) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lendTime)
	defer cancel()
	last, err := a.File.Last(ctx)
	if err != nil {
		return false, err
	}
	request := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(last)), uint64(upTo))
	request = append(request, a.Node...)
	for _, p := range a.Peers {
		reply, askErr := a.Conn.RequestWithContext(ctx, Nodes(a.LOG)+p+VerbRecords, request)
		if askErr != nil || len(reply.Data) == 0 {
			continue
		}
		g, decodeErr := wire.DecodeGroup(reply.Data)
		if decodeErr != nil {
			err = errors.Join(err, fmt.Errorf("records from node %s: %w", p, decodeErr))
			continue
		}
		if upTo > 0 {
			g.Records = g.Records[:min(len(g.Records), int(upTo-last))]
		}
		if extendErr := a.File.Extend(g); extendErr != nil {
			err = errors.Join(err, fmt.Errorf("records from node %s: %w", p, extendErr))
			continue
		}
		return len(g.Records) > 0, nil
	}
	return false, err
}

// Approach extends the file while there is no LOG.
func (a Arrival) Approach(ctx context.Context) error {
	for ctx.Err() == nil {
		more, err := a.extend(ctx, 0)
		if !more {
			switch {
			case errors.As(err, new(*eventstore.UnreadableError)):
				return err
			case errors.As(err, new(*bolt.MismatchError)):
				return fmt.Errorf("%w: it is no part of the log that the cluster is to begin with: %w", ErrForeign, err)
			}
			return nil
		}
	}
	return ctx.Err()
}

// Arrive extends the file up to where LOG begins.
func (a Arrival) Arrive(ctx context.Context, b Base) error {
	for {
		r, err := a.File.Replica()
		if err != nil || !r.Log.IsZero() || b.Ledger != a.File.LogID() || r.Last >= b.Last {
			return err
		}
		more, err := a.extend(ctx, b.Last)
		switch {
		case errors.As(err, new(*eventstore.UnreadableError)):
			return err
		case errors.As(err, new(*bolt.MismatchError)):
			return fmt.Errorf("%w: LOG begins behind position %d: %w", ErrForeign, b.Last, err)
		case err != nil:
			a.Report(err)
		}
		if more {
			continue
		}
		if err == nil {
			a.Report(fmt.Errorf("this log ends at position %d, and LOG begins behind position %d: no node that answers has the events between; "+
				"serve the node from which the cluster began", r.Last, b.Last))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(arriveEvery):
		}
	}
}
