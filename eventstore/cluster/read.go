package cluster

import (
	"cmp"
	"context"
	"errors"
	"iter"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// here is the store with bolt's reads.
type here struct {
	*bolt.Store
	of *Store
}

// Here implements eventstore.Replica.
func (s *Store) Here() eventstore.Store { return here{s.Store, s} }

// Append implements eventstore.Store.
func (h here) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	return h.of.Append(ctx, commits...)
}

// Close implements eventstore.Store.
func (h here) Close() error { return h.of.Close() }

// CatchUp implements eventstore.Replica: it waits until the file has all that was
// acknowledged before it was called.
func (s *Store) CatchUp(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := cmp.Or(s.Err(), s.ended()); err != nil {
		return err
	}
	ready := make(chan error, 1)
	s.mu.Lock()
	if s.closing.Err() != nil {
		s.mu.Unlock()
		return eventstore.ErrClosed
	}
	s.last++
	id := s.last
	s.reads[id] = ready
	s.mu.Unlock()
	s.post(reading{id})
	select {
	case err := <-ready:
		return err
	case <-s.Fatal():
		return s.Err()
	case <-s.closing.Done():
		return eventstore.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Last implements eventstore.Store.
func (s *Store) Last(ctx context.Context) (eventstore.Position, error) {
	if err := s.CatchUp(ctx); err != nil {
		return 0, err
	}
	return s.Store.Last(ctx)
}

// LastOf implements eventstore.Store.
func (s *Store) LastOf(ctx context.Context, f eventstore.Filter) (eventstore.Position, error) {
	if err := s.CatchUp(ctx); err != nil {
		return 0, err
	}
	return s.Store.LastOf(ctx, f)
}

// Load implements eventstore.Store.
func (s *Store) Load(ctx context.Context, st eventstore.Stream) iter.Seq2[eventstore.Stored, error] {
	return s.LoadAfter(ctx, st, 0)
}

// LoadAfter implements eventstore.Store.
func (s *Store) LoadAfter(ctx context.Context, st eventstore.Stream, after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		if err := s.CatchUp(ctx); err != nil {
			yield(eventstore.Stored{}, err)
			return
		}
		s.Store.LoadAfter(ctx, st, after)(yield)
	}
}

// Follow implements eventstore.Store. It ends when Close begins.
func (s *Store) Follow(ctx context.Context, after eventstore.Position, f eventstore.Filter, fn func(eventstore.Stored) error) error {
	if s.closing.Err() != nil {
		return eventstore.ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.closing, func() { cancel(eventstore.ErrClosed) })()
	err := s.Store.Follow(ctx, after, f, fn)
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), eventstore.ErrClosed) {
		return eventstore.ErrClosed
	}
	return err
}

// Claimed implements eventstore.Store. A claim that is found is true at once.
func (s *Store) Claimed(ctx context.Context, project string, key domain.Digest) (eventstore.Stored, bool, error) {
	if r, ok, err := s.Store.Claimed(ctx, project, key); ok || err != nil {
		return r, ok, err
	}
	if err := s.CatchUp(ctx); err != nil {
		return eventstore.Stored{}, false, err
	}
	return s.Store.Claimed(ctx, project, key)
}
