package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"payledger/domain"
)

// Aggregate is a state that decides on commands and evolves with events:
// domain.Payment and domain.Project.
type Aggregate[S, C any] interface {
	Decide(C) (domain.Event, error)
	Evolve(domain.Event) S
}

// Ledger is a store with the codec its records are written in.
type Ledger struct {
	Store Store
	Codec *Codec
}

// Order says under which id a command's event is recorded, and for which
// idempotency key, if any. New promises that the stream does not exist yet
// because its id was just issued: it is not loaded. Patient is that of the
// Commit.
type Order struct {
	EventID domain.ID
	Claim   *Claim
	New     bool
	Patient bool

	unclaimed Position // as the Commit's Unclaimed
}

// Result is what a command led to.
type Result[S any] struct {
	State    S            // after Event; zero when Replayed
	Event    domain.Event // nil when there was nothing to do
	Stored   Stored       // the event's record; zero when Event is nil
	Replayed bool         // Event was recorded by an earlier command with the same claim
}

// maxTries bounds how often a command is decided anew because another one
// changed the stream first.
const maxTries = 16

// Execute loads a stream, lets the aggregate decide, and appends the one
// event. start is the aggregate before its first event. When another command
// was faster it loads and decides again; after maxTries it answers ErrBusy.
//
// With a claim, it first looks whether the same command has succeeded before
// under the claim's key, and so does every refusal; if so that earlier event
// is the result, marked Replayed. A key that was claimed with another
// fingerprint is a *ClaimedError, and so is a reference that was used.
//
// A command that is executed again under the same event id while its event is
// the stream's last is answered with that event: an answer lost in a crash is
// not decided twice.
func Execute[S Aggregate[S, C], C any](ctx context.Context, l Ledger, s Stream, start S, cmd C, o Order) (Result[S], error) {
	if o.Claim != nil {
		// Append would find it too, but in a group and after its sync.
		last, err := l.Store.Last(ctx)
		if err != nil {
			return Result[S]{}, err
		}
		earlier, ok, err := l.Store.Claimed(ctx, s.Project, o.Claim.Key)
		if err != nil {
			return Result[S]{}, err
		}
		switch {
		case !ok:
			o.unclaimed = last
		case earlier.Commit != o.EventID:
			return replay[S](l, earlier, o.Claim)
		}
	}
	for range maxTries {
		r, err := try(ctx, l, s, start, cmd, o)
		if err == nil {
			return r, nil
		}
		var conflict *ConflictError
		var claimed *ClaimedError
		switch {
		case errors.As(err, &claimed) && o.Claim != nil:
			return replay[S](l, claimed.Value, o.Claim)
		case ctx.Err() != nil:
			return Result[S]{}, err
		case o.Claim != nil && refused(err, &conflict):
			earlier, ok, lookupErr := l.Store.Claimed(ctx, s.Project, o.Claim.Key)
			if lookupErr != nil {
				return Result[S]{}, lookupErr
			}
			if ok {
				return replay[S](l, earlier, o.Claim)
			}
		}
		if conflict == nil && !errors.As(err, &conflict) {
			return Result[S]{}, err
		}
		if o.New {
			return Result[S]{}, err
		}
	}
	return Result[S]{}, ErrBusy
}

// refused reports whether err is an answer of Decide or a conflict, not a
// failure of the store.
func refused(err error, conflict **ConflictError) bool {
	var fields domain.FieldErrors
	var refusal *domain.Refusal
	return errors.As(err, &fields) || errors.As(err, &refusal) || errors.As(err, conflict)
}

func try[S Aggregate[S, C], C any](ctx context.Context, l Ledger, s Stream, state S, cmd C, o Order) (Result[S], error) {
	var last Stored
	if !o.New {
		var err error
		if state, last, err = Fold(ctx, l, s, state); err != nil {
			return Result[S]{}, err
		}
	}
	if last.Position != 0 && last.Commit == o.EventID {
		// This very command was recorded and its answer lost.
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
	stored, err := l.Store.Append(ctx, c)
	if err != nil {
		return Result[S]{}, err
	}
	if !bytes.Equal(stored.Body, c.Record.Body) {
		// It was recorded before, when something else was decided.
		if e, err = l.Codec.Event(stored); err != nil {
			return Result[S]{}, err
		}
	}
	return Result[S]{State: state.Evolve(e), Event: e, Stored: stored}, nil
}

// Prepare is the first half of Execute, for who appends what many commands led
// to at once: it loads a stream, lets the aggregate decide, and answers what is
// to be appended, and its event. That is nil when there is nothing to do.
func Prepare[S Aggregate[S, C], C any](ctx context.Context, l Ledger, s Stream, start S, cmd C, o Order) (c Commit, e domain.Event, err error) {
	state, last, err := Fold(ctx, l, s, start)
	if err != nil {
		return Commit{}, nil, err
	}
	if e, err = state.Decide(cmd); err != nil || e == nil {
		return Commit{}, nil, err
	}
	c, err = l.Commit(s, last, e, o)
	return c, e, err
}

// Commit is what an event comes to behind the stream's last record. An event
// that books the money of a provider's reference claims that for ever.
func (l Ledger) Commit(s Stream, last Stored, e domain.Event, o Order) (Commit, error) {
	r, err := l.Codec.record(s, last, o.EventID, e)
	c := Commit{ID: o.EventID, Record: r, Claim: o.Claim, Unclaimed: o.unclaimed, Patient: o.Patient}
	if reference := referenceOf(e, referencesClaimed); reference != nil {
		c.Claim, c.Unclaimed = reference, 0
	}
	return c, err
}

// Evolver is the half of an aggregate that folds events.
type Evolver[S any] interface{ Evolve(domain.Event) S }

// Fold answers the state after all of a stream's records, and the last of
// them.
func Fold[S Evolver[S]](ctx context.Context, l Ledger, s Stream, state S) (S, Stored, error) {
	return FoldAfter(ctx, l, s, state, Stored{})
}

// FoldAfter goes on with a fold: state is that after last, which is the
// stream's record that was folded last.
func FoldAfter[S Evolver[S]](ctx context.Context, l Ledger, s Stream, state S, last Stored) (S, Stored, error) {
	f := folding[S]{state: state, last: last}
	for r, err := range l.Store.LoadAfter(ctx, s, last.Position) {
		if f.add(l.Codec, r, err); f.err != nil {
			break
		}
	}
	return f.state, f.last, f.err
}

// folding is a fold under way, in one piece: a loop over an iterator has what
// it changes on the heap.
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

func replay[S any](l Ledger, earlier Stored, claim *Claim) (Result[S], error) {
	if earlier.Claim == nil || earlier.Claim.Fingerprint != claim.Fingerprint {
		return Result[S]{}, &ClaimedError{Value: earlier}
	}
	e, err := l.Codec.Event(earlier)
	if err != nil {
		return Result[S]{}, err
	}
	return Result[S]{Event: e, Stored: earlier, Replayed: true}, nil
}
