// Package connector connects payledger with the providers that collect the money. A route's
// connector makes attempts at its provider, says how the customer is redirected to it, and reads
// the outcomes of attempts and refunds. It never touches the ledger and decides nothing: what it
// reads becomes signals on NATS, which package signals judges.
//
// Each provider is a package below this one, with a row in routesfile.Types.
package connector

import (
	"context"
	"net/http"
)

// Connector connects one route with its provider.
//
// Its calls may be repeated at any time, and after a crash: what they do at the
// provider happens once for each key. Calls for one payment come one at a time;
// calls for different payments come at the same time. Each call ends when its
// context does.
//
// Errors: a *RefusedError, a *SpentKeyError, a *BusyError or ErrNotFound where a
// method says so. After any other error it is not known whether the provider did
// what it was asked for: the call is repeated later, with the same key.
type Connector interface {
	// Begin makes the attempt at the provider, once for each Attempt.Key, and
	// answers its state, with the hand-over while it is open. The state says what
	// the provider knows now, not what it answered the first time.
	//
	// *RefusedError: no such attempt can be made, now or later.
	// *SpentKeyError: nothing can come of this key any more.
	Begin(ctx context.Context, a Attempt) (State, error)

	// Read returns the attempt's present state. a.Reference is set. An attempt
	// that holds money which has to be claimed is claimed before it is Paid.
	// ErrNotFound: the provider knows no attempt of this reference, or it is one of
	// another payment. What was collected for one payment is never answered for
	// another: notifications may be forged, and programs wrong.
	Read(ctx context.Context, a Attempt) (State, error)

	// Cancel ends the attempt at the provider, or lets go of money that it holds,
	// and returns the state after that: Closed, or Paid when it was too late, or
	// Open when the provider cannot cancel it now; then it is asked again later.
	// a.Reference is set. ErrNotFound as Read.
	Cancel(ctx context.Context, a Attempt) (State, error)

	// Refund asks the provider once for each Refund.ID to return the money, and
	// answers the refund's present state. What the provider refuses for good is a
	// state, Closed with its reason. A provider that has returned the money before
	// is searched for the refund of this id; without one the refund is Closed with
	// ReasonRefundedAtProvider.
	Refund(ctx context.Context, r Refund) (RefundState, error)

	// Refunds returns all refunds of the attempt's money that the provider knows,
	// with their present states: the refunds asked for here and those made at the
	// provider by hand. ErrNotFound as Read.
	Refunds(ctx context.Context, a Attempt) ([]RefundState, error)

	// Disputes returns the disputes of the attempt's money that the provider knows, with their
	// present states; none from a provider that does not say. ErrNotFound as Read.
	Disputes(ctx context.Context, a Attempt) ([]DisputeState, error)

	// Notices reads a notification of the provider's and returns what it is about, at
	// most MaxNotices, or nothing if it is of a kind that concerns no payment. Nothing
	// that it says of amounts and outcomes is used: the attempts are read.
	//
	// ErrForged: it is not the provider's. A *RefusedError: it is malformed.
	Notices(ctx context.Context, header http.Header, body []byte) ([]Notice, error)
}

// MaxNotices is what a notification can be about.
const MaxNotices = 16
