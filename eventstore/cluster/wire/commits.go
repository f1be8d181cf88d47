package wire

import (
	"encoding/binary"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/bolt/record"
)

// storedBytes is a record with its position (8).
func storedBytes(r *eventstore.Stored) []byte {
	return record.Append(binary.BigEndian.AppendUint64(nil, uint64(r.Position)), r)
}

func storedOf(b []byte) (eventstore.Stored, error) {
	p, b, ok := Number(b)
	if !ok {
		return eventstore.Stored{}, ErrMalformed
	}
	return record.Decode(eventstore.Position(p), b)
}

// EncodeCommits is a request to append. Each commit is written as the record that it
// would be right behind the last one of its stream.
func EncodeCommits(commits []eventstore.Commit) (out []byte) {
	for _, c := range commits {
		out = AppendPart(out, storedBytes(&eventstore.Stored{
			Position: c.Record.Expect + 1, Prev: c.Record.Expect, Sequence: 1, Stream: c.Record.Stream, Commit: c.ID, Claim: c.Claim, Body: c.Record.Body,
		}))
	}
	return out
}

func commitOf(b []byte) (eventstore.Commit, error) {
	r, err := storedOf(b)
	if err != nil {
		return eventstore.Commit{}, err
	}
	c := eventstore.Commit{
		ID: r.Commit, Claim: r.Claim, Record: eventstore.Record{Stream: r.Stream, Expect: r.Prev, Body: r.Body},
	}
	return c, c.Validate()
}

// DecodeCommits reads a request to append.
func DecodeCommits(b []byte) (commits []eventstore.Commit, err error) {
	all, err := parts(b, bolt.MaxGroupCommits)
	if err != nil {
		return nil, err
	}
	for _, piece := range all {
		c, err := commitOf(piece)
		if err != nil {
			return nil, err
		}
		commits = append(commits, c)
	}
	return commits, nil
}
