package connector

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound: the provider knows no attempt of this reference.
	ErrNotFound = errors.New("the provider knows no such attempt")
	// ErrForged: a notification is not the provider's.
	ErrForged = errors.New("the notification is not the provider's")
)

// RefusedError is a provider's refusal that no repetition can change.
type RefusedError struct {
	Reason string // a short code; see ReasonCode
	Detail string // for the operator; no secret, and nothing of the customer's
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the provider refuses (%s): %s", e.Reason, e.Detail)
}

// SpentKeyError: nothing can come of this key any more. The provider repeats an
// earlier server error for it, or takes it only with the words that it was first
// used with. The customer has never seen an attempt of this key, so another key
// collects nothing twice.
type SpentKeyError struct{ Err error }

func (e *SpentKeyError) Error() string {
	return fmt.Sprintf("nothing can come of this key any more: %v", e.Err)
}

func (e *SpentKeyError) Unwrap() error { return e.Err }

// BusyError: the provider asks for fewer calls (429), or for a pause (503 with
// Retry-After). Nothing was done.
type BusyError struct {
	After time.Duration // how long to wait; 0: the provider did not say
	Err   error
}

func (e *BusyError) Error() string { return fmt.Sprintf("the provider is busy: %v", e.Err) }

func (e *BusyError) Unwrap() error { return e.Err }
