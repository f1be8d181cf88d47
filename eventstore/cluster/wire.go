package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/bolt/record"
)

// What nodes ask each other, each at PREFIX.NODE.VERB. Numbers are big-endian.
//
//	append  commits, each as parts writes it -> answers to them
//	ask     question (8), asker -> nothing; the answer goes to PREFIX.ASKER.answer:
//	        question (8) number (8)
//	status  nothing -> number (8)
//	report  nothing -> Status in JSON
//	leave   node, or nothing for any -> left in JSON: the sequencer hands over to it
//	lease   nothing -> nothing: the lease has another holder
//	fetch   number (8) -> the groups from there on, as many as fit, each as parts writes it
const (
	verbAppend = ".append"
	verbAsk    = ".ask"
	verbAnswer = ".answer"
	verbStatus = ".status"
	verbReport = ".report"
	verbFetch  = ".fetch"
	verbLeave  = ".leave"
	verbLease  = ".lease"

	// A peer is known by its certificate, and may be of another version or mad all the
	// same. What it sends is bounded: messages that are longer, or have more in them,
	// are dropped, and so are requests beyond those that wait to be served.
	maxMessage  = 1<<20 - 4<<10 // of bytes: NATS' own bound is 1 MiB
	maxReport   = 16 << 10
	maxAppends  = 8192 // requests
	maxFetches  = 4
	maxPending  = 4096 // messages that the node has not looked at yet, of each verb
	pendingSize = 16 << 20

	peerTime   = 3 * time.Second
	appendTime = callTime // nobody waits longer for an answer
	fetchBytes = 256 << 10
)

// parts writes pieces one behind the other, each with its length (4).
func parts(to, piece []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(piece))), piece...)
}

// pieces reads what parts wrote, at most so many.
func pieces(b []byte, most int) (all [][]byte, err error) {
	if len(b) > maxMessage {
		return nil, errMessage
	}
	for len(b) > 0 {
		if len(all) == most || len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
			return nil, errMessage
		}
		n := 4 + binary.BigEndian.Uint32(b)
		all, b = append(all, b[4:n:n]), b[n:]
	}
	return all, nil
}

func number(b []byte) (uint64, []byte, bool) {
	if len(b) < 8 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(b), b[8:], true
}

// storedBytes is a record with its position (8).
func storedBytes(r *eventstore.Stored) []byte {
	return record.Append(binary.BigEndian.AppendUint64(nil, uint64(r.Position)), r)
}

func storedOf(b []byte) (eventstore.Stored, error) {
	p, b, ok := number(b)
	if !ok {
		return eventstore.Stored{}, errMessage
	}
	return record.Decode(eventstore.Position(p), b)
}

// commitBytes writes a commit as the record that it would be right behind the last
// one of its stream.
func commitBytes(c eventstore.Commit) []byte {
	return storedBytes(&eventstore.Stored{
		Position: c.Record.Expect + 1, Prev: c.Record.Expect, Sequence: 1, Stream: c.Record.Stream, Commit: c.ID, Claim: c.Claim, Body: c.Record.Body,
	})
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

// commitsOf reads a request to append.
func commitsOf(b []byte) (commits []eventstore.Commit, err error) {
	all, err := pieces(b, bolt.MaxGroupCommits)
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

// groupsOf reads the answer to a request for the groups from a number on.
func groupsOf(b []byte, from uint64) (groups []*bolt.Group, err error) {
	all, err := pieces(b, maxAhead)
	if err != nil {
		return nil, err
	}
	for i, piece := range all {
		g, err := decode(piece)
		if err == nil && g.Number != from+uint64(i) {
			err = fmt.Errorf("%w: group %d comes in the place of %d", errMessage, g.Number, from+uint64(i))
		}
		if err != nil {
			return groups, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// numbers reads a message of so many numbers.
func numbers(b []byte, n int) (all []uint64, ok bool) {
	for range n {
		var x uint64
		if x, b, ok = number(b); !ok {
			return nil, false
		}
		all = append(all, x)
	}
	return all, len(b) == 0
}

// The kinds of answers to a commit.
const (
	answerStored   = 'S' // the record
	answerConflict = 'C' // the stream's last position
	answerClaimed  = 'K' // the record that holds the key
	answerBusy     = 'B' // it was not taken up
	answerFull     = 'F' // likewise
	answerTooNew   = 'A' // likewise, since its id is ahead of the log's time
	answerTooOld   = 'O' // it is not recognised, and too old for that to mean anything
	answerUnknown  = 'U' // it may be recorded: it has to be sent again
)

func answerBytes(a eventstore.Appended) []byte {
	var conflict *eventstore.ConflictError
	var claimed *eventstore.ClaimedError
	switch {
	case a.Err == nil:
		return append([]byte{answerStored}, storedBytes(&a.Stored)...)
	case errors.As(a.Err, &conflict):
		return binary.BigEndian.AppendUint64([]byte{answerConflict}, uint64(conflict.Actual))
	case errors.As(a.Err, &claimed):
		return append([]byte{answerClaimed}, storedBytes(&claimed.Value)...)
	case errors.Is(a.Err, errTooNew):
		return []byte{answerTooNew}
	case errors.Is(a.Err, eventstore.ErrUnconfirmed):
		return []byte{answerTooOld}
	case errors.Is(a.Err, eventstore.ErrBusy):
		return []byte{answerBusy}
	case errors.Is(a.Err, eventstore.ErrFull):
		return []byte{answerFull}
	}
	return []byte{answerUnknown}
}

// answerOf reads the answer to a commit; settled is false if it has to be sent again.
func answerOf(b []byte, c eventstore.Commit) (a eventstore.Appended, settled bool) {
	if len(b) == 0 {
		return a, false
	}
	var err error
	switch kind, rest := b[0], b[1:]; kind {
	case answerStored:
		if a.Stored, err = storedOf(rest); err == nil && (a.Commit != c.ID || a.Stream != c.Record.Stream) {
			return eventstore.Appended{}, false
		}
		if string(a.Body) == string(c.Record.Body) {
			a.Event = c.Record.Event
		}
	case answerConflict:
		actual, ok := numbers(rest, 1)
		if !ok || eventstore.Position(actual[0]) == c.Record.Expect {
			return a, false
		}
		a.Err = &eventstore.ConflictError{Stream: c.Record.Stream, Actual: eventstore.Position(actual[0])}
	case answerClaimed:
		var r eventstore.Stored
		r, err = storedOf(rest)
		if c.Claim == nil || r.Claim == nil || r.Claim.Key != c.Claim.Key {
			return a, false
		}
		a.Err = &eventstore.ClaimedError{Value: r}
	case answerBusy:
		a.Err = eventstore.ErrBusy
	case answerTooNew:
		a.Err = errTooNew
	case answerTooOld:
		a.Err = eventstore.ErrUnconfirmed
	case answerFull:
		a.Err = eventstore.ErrFull
	default:
		return a, false
	}
	return a, err == nil
}
