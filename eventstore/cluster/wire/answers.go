package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"payledger/eventstore"
)

// ErrTooNew refuses a commit whose id is too far ahead of the log's time.
var ErrTooNew = fmt.Errorf("%w: the clock of the node that took the command is ahead of the sequencer's", eventstore.ErrBusy)

// ErrUnsettled: whether the commit is recorded is not known, and it has to be sent again.
var ErrUnsettled = errors.New("not known to be recorded")

// The kinds of answers to a commit.
const (
	answerStored   = 'S' // the record
	answerConflict = 'C' // the stream's last position
	answerClaimed  = 'K' // the record that holds the key
	answerBusy     = 'B' // it was not taken up
	answerFull     = 'F' // likewise
	answerTooNew   = 'A' // likewise: ErrTooNew
	answerTooOld   = 'O' // it is not recognised, and too old for that to mean anything
	answerUnread   = 'P' // likewise: eventstore.TooOldError of the node that follows
	answerUnknown  = 'U' // it may be recorded: it has to be sent again
)

// The name of a node.
const (
	maxNode     = 16 // bytes
	nodeLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
)

func answerBytes(a eventstore.Appended) []byte {
	var conflict *eventstore.ConflictError
	var claimed *eventstore.ClaimedError
	var unread *eventstore.TooOldError
	switch {
	case a.Err == nil:
		return append([]byte{answerStored}, storedBytes(&a.Stored)...)
	case errors.As(a.Err, &conflict):
		return binary.BigEndian.AppendUint64([]byte{answerConflict}, uint64(conflict.Actual))
	case errors.As(a.Err, &claimed):
		return append([]byte{answerClaimed}, storedBytes(&claimed.Value)...)
	case errors.As(a.Err, &unread):
		return append([]byte{answerUnread}, unread.Node...)
	case errors.Is(a.Err, ErrTooNew):
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

// EncodeAnswers writes the answers to commits. Those for which there is no room have to be
// asked for again.
func EncodeAnswers(answers []eventstore.Appended) (out []byte) {
	for i, a := range answers {
		b := answerBytes(a)
		if least := 5 * (len(answers) - i); len(out)+len(b)+least > MaxMessage {
			b = []byte{answerUnknown}
		}
		out = AppendPart(out, b)
	}
	return out
}

// DecodeAnswers reads the answers to commits; false: they are none. The error of one that
// is not settled is ErrUnsettled.
func DecodeAnswers(b []byte, commits []eventstore.Commit) (answers []eventstore.Appended, ok bool) {
	all, err := parts(b, len(commits))
	if err != nil || len(all) != len(commits) {
		return nil, false
	}
	for i, c := range commits {
		a, settled := answerOf(all[i], c)
		if !settled {
			a = eventstore.Appended{Err: ErrUnsettled}
		}
		answers = append(answers, a)
	}
	return answers, true
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
		actual, ok := Numbers(rest, 1)
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
		a.Err = ErrTooNew
	case answerTooOld:
		a.Err = eventstore.ErrUnconfirmed
	case answerFull:
		a.Err = eventstore.ErrFull
	case answerUnread:
		if len(rest) == 0 || len(rest) > maxNode || len(bytes.Trim(rest, nodeLetters)) > 0 {
			return a, false
		}
		form, _ := eventstore.FormOf(c.Record.Body)
		a.Err = &eventstore.TooOldError{Node: string(rest), Form: form}
	default:
		return a, false
	}
	return a, err == nil
}
