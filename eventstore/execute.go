package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"payledger/domain"
	"payledger/domain/deliveries"
)

// Aggregate is a state that decides commands and evolves with events:
// domain.Payment and projects.Project.
type Aggregate[S, C any] interface {
	Decide(C) (domain.Event, error)
	Evolve(domain.Event) S
}

// Ledger is a store and the codec of its records.
type Ledger struct {
	Store Store
	Codec *Codec
}

// Order holds the inputs of a commit that the command does not have: the event's
// id, its cause, and the claim of an idempotency key, if any. Before is the fingerprint that an
// earlier version claimed the key with for the same command; zero for none. New: the stream does
// not exist yet, because its id was just issued, so it is not loaded. After: the state that
// Execute starts from is the one after this record of the stream. Patient is
// Commit.Patient.
type Order struct {
	EventID domain.ID
	Cause   Cause
	Claim   *Claim
	Before  domain.Digest
	New     bool
	After   Stored
	Patient bool
}

// Result is the result of a command.
type Result[S any] struct {
	State    S            // after Event; zero when Replayed
	Event    domain.Event // nil when there was nothing to do
	Stored   Stored       // the event's record; zero when Event is nil
	Replayed bool         // Event was recorded by an earlier command with the same claim
}

// maxTries bounds how often a command is decided again because another command
// changed the stream first.
const maxTries = 16

// Execute loads a stream, lets the aggregate decide, and appends the one
// event. start is the aggregate before its first event, or after o.After. If another command
// changed the stream first, it loads and decides again; after maxTries the error
// is ErrBusy.
//
// With a claim, the key is looked up first, by Append again, and once more before any
// other error is returned. If the same command succeeded before under the key, the result is the
// earlier event, with Replayed set. A key that was claimed with another
// fingerprint is a *ClaimedError; so is a provider's reference that was used.
//
// On a Confirmer, Append decides for all machines whether an event is recorded; a refusal, or
// that there is nothing to do, is answered once it is known that this machine had everything.
//
// If a command is executed again under the same event id while its event is the
// stream's last, the result is that event: a command whose answer was lost in a
// crash is not decided twice.
func Execute[S Aggregate[S, C], C any](ctx context.Context, l Ledger, s Stream, start S, cmd C, o Order) (Result[S], error) {
	confirm := Arrive(l.Store, false)
	r, err := execute(ctx, l, s, start, cmd, o)
	if maybeStale(r.Event, err) {
		if err := confirm(ctx); err != nil {
			return Result[S]{}, err
		}
	}
	return r, err
}

// maybeStale reports whether a result may be based on an old state of the stream. A claim that was
// found cannot be.
func maybeStale(e domain.Event, err error) bool {
	switch {
	case err == nil:
		return e == nil
	case Passing(err), errors.Is(err, ErrUnconfirmed), errors.Is(err, ErrClosed), errors.As(err, new(*FatalError)),
		errors.As(err, new(*ClaimedError)), errors.As(err, new(*CorruptError)),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	}
	return true
}

func execute[S Aggregate[S, C], C any](ctx context.Context, l Ledger, s Stream, start S, cmd C, o Order) (Result[S], error) {
	if r, ok, err := claimedBefore(ctx, l, s, start, o, nil); ok || err != nil { // so it need not wait for a commit
		return r, err
	}
	for range maxTries {
		r, err := try(ctx, l, s, start, cmd, o)
		if err == nil || ctx.Err() != nil {
			return r, err
		}
		if earlier, ok, lookupErr := claimedBefore(ctx, l, s, start, o, err); ok || lookupErr != nil {
			return earlier, lookupErr // without the lookup, err may be the wrong result
		}
		if o.New || !errors.As(err, new(*ConflictError)) {
			return Result[S]{}, err
		}
	}
	return Result[S]{}, ErrBusy
}

// claimedBefore is the result of the command that claimed the key, if one did: after any failure,
// also a full disk, the same command may have succeeded before.
func claimedBefore[S Aggregate[S, C], C any](ctx context.Context, l Ledger, s Stream, start S, o Order, failed error) (r Result[S], ok bool, err error) {
	if o.Claim == nil {
		return r, false, nil
	}
	var earlier Stored
	if claimed, is := errors.AsType[*ClaimedError](failed); is {
		earlier = claimed.Value
	} else if earlier, ok, err = l.Store.Claimed(ctx, s.Project, o.Claim.Key); !ok || err != nil {
		return r, false, err
	}
	if earlier.Commit == o.EventID {
		r, err = ownResult(ctx, l, s, start, o, earlier)
	} else {
		r, err = replay[S](l, earlier, o)
	}
	return r, true, err
}

// ownResult is the result of a command whose event was recorded, although Append returned an error.
func ownResult[S Aggregate[S, C], C any](ctx context.Context, l Ledger, s Stream, state S, o Order, recorded Stored) (Result[S], error) {
	f := folding[S]{state: state, last: o.After}
	for r, err := range l.Store.LoadAfter(ctx, s, o.After.Position) {
		if f.add(l.Codec, r, err); f.err != nil || r.Position == recorded.Position {
			break
		}
	}
	if f.err != nil {
		return Result[S]{}, f.err
	}
	e, err := l.Codec.Event(recorded)
	return Result[S]{State: f.state, Event: e, Stored: recorded}, err
}

func try[S Aggregate[S, C], C any](ctx context.Context, l Ledger, s Stream, state S, cmd C, o Order) (Result[S], error) {
	last := o.After
	if !o.New {
		var err error
		if state, last, err = FoldAfter(ctx, l, s, state, last); err != nil {
			return Result[S]{}, err
		}
	}
	if last.Position != 0 && last.Commit == o.EventID {
		// This command was recorded before, and its answer was lost.
		e, err := l.Codec.Event(last)
		return Result[S]{State: state, Event: e, Stored: last}, err
	}
	e, err := state.Decide(cmd)
	if err != nil || e == nil {
		return Result[S]{State: state}, err
	}
	c, err := l.Commit(s, last, e, o)
	if err != nil {
		return Result[S]{}, err
	}
	stored, err := AppendOne(ctx, l.Store, c)
	if err != nil {
		return Result[S]{}, err
	}
	if c.Record.Event != nil {
		e = c.Record.Event
	}
	if !bytes.Equal(stored.Body, c.Record.Body) {
		// It was recorded before with another event.
		if e, err = l.Codec.Event(stored); err != nil {
			return Result[S]{}, err
		}
	}
	return Result[S]{State: state.Evolve(e), Event: e, Stored: stored}, nil
}

// Commit makes the commit of an event that follows the stream's last record. If
// the event books the money of a provider's reference, the commit claims the
// reference for ever. Without a trace in o the event goes on with that of last, which
// may be without its body if there is one.
//
// The description and payload of a new payment become the record's details. The event of an erasure
// erases the stream's.
//
// The event of a payment is kept in the record, because decoding the body gives an
// equal event (a payload is always compact). So it is not decoded while the record is
// in memory.
func (l Ledger) Commit(s Stream, last Stored, e domain.Event, o Order) (Commit, error) {
	if o.Cause.Trace == "" {
		o.Cause.Trace = CauseOf(last.Body).Trace
	}
	var detached []byte
	var err error
	if created, ok := e.(domain.PaymentCreated); ok {
		e, detached, err = l.Codec.detach(created)
	}
	if err != nil {
		return Commit{}, err
	}
	body, err := l.Codec.Encode(s, last.Sequence+1, o.EventID, o.Cause, e)
	if err != nil {
		return Commit{}, err
	}
	c := Commit{
		ID: o.EventID, Claim: o.Claim, Patient: o.Patient,
		Record: Record{Stream: s, Expect: last.Position, Body: body, Details: detached, Erases: Erases(e)},
	}
	switch e.(type) {
	case domain.PaymentEvent, deliveries.Noted:
		c.Record.Event = e
	}
	if claim := ClaimOf(e, l.Codec.byName[e.Type()].Version); claim != nil && claim.Forever {
		c.Claim = claim
	}
	return c, nil
}

// Evolver is the part of an aggregate that applies events.
type Evolver[S any] interface{ Evolve(domain.Event) S }

// Fold returns the state after all records of a stream, and the last of them.
func Fold[S Evolver[S]](ctx context.Context, l Ledger, s Stream, state S) (S, Stored, error) {
	return FoldAfter(ctx, l, s, state, Stored{})
}

// FoldAfter continues a fold: state is the state after the record last.
func FoldAfter[S Evolver[S]](ctx context.Context, l Ledger, s Stream, state S, last Stored) (S, Stored, error) {
	f := folding[S]{state: state, last: last}
	for r, err := range l.Store.LoadAfter(ctx, s, last.Position) {
		if f.add(l.Codec, r, err); f.err != nil {
			break
		}
	}
	return f.state, f.last, f.err
}

// folding is a fold under way. It is one value, because a loop over an iterator
// moves each variable that it changes to the heap.
type folding[S Evolver[S]] struct {
	state S
	last  Stored
	err   error
}

func (f *folding[S]) add(c *Codec, r Stored, err error) {
	var e domain.Event
	if err == nil && f.last.Position != 0 && r.Prev != f.last.Position {
		err = &CorruptError{Position: r.Position, Reason: fmt.Sprintf("the record before it in its stream is not at position %d", f.last.Position)}
	}
	if err == nil {
		e, err = c.Event(r)
	}
	if f.err = err; err == nil {
		f.state, f.last = f.state.Evolve(e), r
	}
}

func replay[S any](l Ledger, earlier Stored, o Order) (Result[S], error) {
	c := earlier.Claim
	if c == nil || c.Fingerprint != o.Claim.Fingerprint && (o.Before == domain.Digest{} || c.Fingerprint != o.Before) {
		return Result[S]{}, &ClaimedError{Value: earlier}
	}
	e, err := l.Codec.Event(earlier)
	if err != nil {
		return Result[S]{}, err
	}
	return Result[S]{Event: e, Stored: earlier, Replayed: true}, nil
}
