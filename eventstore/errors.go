package eventstore

import (
	"errors"
	"fmt"
)

// Errors that the caller can expect to end by themselves, and ErrClosed.
var (
	// ErrBusy: the store cannot accept the commit now; try again.
	ErrBusy = errors.New("the event store is busy, try again")
	// ErrFull: the disk is nearly full and the store refuses commits. Reads work,
	// and commits do again once there is space.
	ErrFull = errors.New("the disk with the event log is nearly full: free some space, commits resume by themselves")
	// ErrUnconfirmed: the store could not find out in time whether the commit was
	// recorded. It is recorded once, or never, if the same commit is sent again.
	ErrUnconfirmed = errors.New("it is not known yet whether the event was recorded: send the same again")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the event store is closed")
)

// ConflictError: the stream's last record is not the one the commit expected.
type ConflictError struct {
	Stream Stream
	Actual Position // of the stream's last record, 0 if it does not exist
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("stream %s/%s/%s has moved on to position %d", e.Stream.Project, e.Stream.Kind, e.Stream.ID, e.Actual)
}

// ClaimedError: the claim's key was claimed before, by the record Value.
type ClaimedError struct{ Value Stored }

func (e *ClaimedError) Error() string {
	what := "idempotency key"
	if c := e.Value.Claim; c != nil && c.Forever {
		what = "provider's reference"
	}
	return fmt.Sprintf("the %s was used at position %d", what, e.Value.Position)
}

// CorruptError: the record at Position is not what was written; Position is 0 if
// the damage is not in a record. Nothing after it can be trusted before the file
// is verified.
type CorruptError struct {
	Position Position
	Reason   string
}

func (e *CorruptError) Error() string {
	if e.Position == 0 {
		return "the event log is damaged: " + e.Reason
	}
	return fmt.Sprintf("the record at position %d is damaged: %s", e.Position, e.Reason)
}

// SuspendedError: the store makes no commits because they could be lost, or destroy what is
// recorded; it can be read. The operator has to act.
type SuspendedError struct{ Err error }

func (e *SuspendedError) Error() string {
	return fmt.Sprintf("nothing more is recorded, because %v", e.Err)
}

func (e *SuspendedError) Unwrap() error { return e.Err }

// Passing reports whether a commit with this error was not accepted and is worth another try later.
func Passing(err error) bool {
	return errors.Is(err, ErrBusy) || errors.Is(err, ErrFull) || errors.As(err, new(*SuspendedError))
}

// FatalError: a commit failed, and it is unknown whether it is on disk. The process
// must end; the next start decides from the file.
type FatalError struct{ Err error }

func (e *FatalError) Error() string {
	return fmt.Sprintf("the event log failed and must be opened again: %v", e.Err)
}

func (e *FatalError) Unwrap() error { return e.Err }
