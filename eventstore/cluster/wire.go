package cluster

import (
	"encoding/binary"
	"errors"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/bolt/record"
)

// What nodes ask each other, each at PREFIX.NODE.VERB. Numbers are big-endian.
//
//	append  commits, each as parts writes it -> answers to them
//	ask     question (8), asker -> nothing; the answer goes to PREFIX.ASKER.answer:
//	        question (8) number (8)
//	status  nothing -> number (8)
//	report  nothing -> Status in JSON
//	fetch   number (8) -> the groups from there on, as many as fit, each as parts writes it
const (
	verbAppend = ".append"
	verbAsk    = ".ask"
	verbAnswer = ".answer"
	verbStatus = ".status"
	verbReport = ".report"
	verbFetch  = ".fetch"

	peerTime   = 3 * time.Second
	fetchBytes = 512 << 10
	maxReport  = 16 << 10
)

// parts writes pieces one behind the other, each with its length (4).
func parts(to, piece []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(piece))), piece...)
}

// pieces reads what parts wrote.
func pieces(b []byte) (all [][]byte, err error) {
	for len(b) > 0 {
		if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
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
	return eventstore.Commit{
		ID: r.Commit, Claim: r.Claim, Record: eventstore.Record{Stream: r.Stream, Expect: r.Prev, Body: r.Body},
	}, err
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
		a.Stored, err = storedOf(rest)
		if a.Commit == c.ID && string(a.Body) == string(c.Record.Body) {
			a.Event = c.Record.Event
		}
	case answerConflict:
		actual, _, ok := number(rest)
		a.Err = &eventstore.ConflictError{Stream: c.Record.Stream, Actual: eventstore.Position(actual)}
		return a, ok
	case answerClaimed:
		var r eventstore.Stored
		r, err = storedOf(rest)
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
