// Package founding is how LOG begins: what it begins behind, and how it is made anew if the
// NATS servers have lost it.
//
// Whatever was answered is in a node's file, so that LOG can be made again without any of
// its groups. It keeps its id, and its first group gets the number of the last one that any
// member has. From then on it is a LOG that was trimmed and has forgotten its tail
// (package cluster): the sequencer publishes that group again from the file that has it,
// nodes that lack groups get them from the files of their peers, and a node whose file has
// other groups stops.
//
// All members have to answer: LOG would go on without what only a silent one has. Nothing
// is made where one file is not the beginning of the other, and nothing before the servers
// have told every member for some time that they have no LOG: servers that have just started
// may not know their streams yet. Two nodes that make LOG at a time make the same one, or
// the servers refuse the second.
package founding

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

const (
	// Stream is the name of LOG.
	Stream = "LOG"

	// Subject is where LOG takes its messages.
	Subject = "payledger.log"

	// MaxBytes bounds LOG. No more is kept than a file can make again, so that a dead
	// member cannot fill it.
	MaxBytes = 1 << 30

	// Replicas is how many servers keep LOG.
	Replicas = 3

	requestTime = 2 * time.Second
)

// The metadata of LOG: what all of its groups follow from. MetaLedger is the id of the
// event log.
const (
	MetaLedger = "payledger-log"
	metaLOG    = "payledger-cluster"  // LOG's own id
	metaLast   = "payledger-position" // the position that the event log had
	metaSum    = "payledger-sum"      // SHA-256 of the record there, in hexadecimal
)

// ErrForeign: LOG is that of another cluster, or this file belongs to another one.
var ErrForeign = errors.New("this event log does not belong to the cluster")

// Nodes is how the subjects of the nodes of a LOG begin.
func Nodes(log domain.ID) string { return "payledger.node." + log.String() + "." }

// Base is what LOG begins behind.
type Base struct {
	Ledger, LOG domain.ID // of the event log, and its own
	Last        eventstore.Position
	Sum         string // of the record there, in hexadecimal
	Group       uint64 // the number before LOG's first one: 0, but for a LOG that was made anew
}

// Make makes LOG. It fails if the servers have another one.
func Make(ctx context.Context, js jetstream.JetStream, b Base) (jetstream.Stream, error) {
	var first uint64
	if b.Group > 0 {
		first = b.Group + 1
	}
	return js.CreateStream(ctx, jetstream.StreamConfig{
		Name: Stream, Description: "The groups of commits of payledger's event log, until every node has them.",
		Subjects: []string{Subject}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Replicas: Replicas,
		MaxMsgs: bolt.KeptGroups, MaxBytes: MaxBytes, MaxMsgsPerSubject: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Discard: jetstream.DiscardNew, DenyDelete: true, Duplicates: 100 * time.Millisecond, FirstSeq: first,
		Metadata: map[string]string{
			MetaLedger: b.Ledger.String(), metaLOG: b.LOG.String(), metaLast: strconv.FormatUint(uint64(b.Last), 10), metaSum: b.Sum,
		},
	})
}

// Of reads what LOG begins behind.
func Of(c jetstream.StreamConfig) (b Base, err error) {
	ledger, ok := domain.ParseID(c.Metadata[MetaLedger])
	log, ours := domain.ParseID(c.Metadata[metaLOG])
	last, err := strconv.ParseUint(c.Metadata[metaLast], 10, 64)
	switch {
	case !ok || !ours || err != nil:
		return b, fmt.Errorf("%w: LOG was not made by payledger", ErrForeign)
	case c.Storage != jetstream.FileStorage, c.Discard != jetstream.DiscardNew, !c.DenyDelete, c.MaxAge != 0,
		c.Retention != jetstream.LimitsPolicy, c.Mirror != nil, len(c.Sources) > 0, c.SubjectTransform != nil:
		return b, fmt.Errorf("%w: LOG's settings were changed and could lose groups", ErrForeign)
	}
	return Base{ledger, log, eventstore.Position(last), c.Metadata[metaSum], max(c.FirstSeq, 1) - 1}, nil
}

// Join makes the file follow LOG, or says why it cannot.
func Join(file *bolt.Store, b Base) error {
	if b.Ledger != file.LogID() {
		return fmt.Errorf("%w: LOG is of the event log %s, this is %s", ErrForeign, b.Ledger, file.LogID())
	}
	r, err := file.Replica()
	switch {
	case err != nil || r.Log == b.LOG:
		return err
	case !r.Log.IsZero():
		return fmt.Errorf("%w: the file follows LOG %s, this is LOG %s", ErrForeign, r.Log, b.LOG)
	case r.Last != b.Last || fmt.Sprintf("%x", r.Sum) != b.Sum:
		return fmt.Errorf("%w: LOG begins behind position %d, and the file has other records up to there or ends at another (%d)",
			ErrForeign, b.Last, r.Last)
	}
	return file.Join(b.LOG, b.Group)
}

// Vacant fails unless LOG can be made: the servers answer, and there is none.
func Vacant(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	switch _, err := js.Stream(ctx, Stream); {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("JetStream of the nodes: %w", err)
	}
	return fmt.Errorf("%w: the NATS servers have a LOG already", ErrForeign)
}
