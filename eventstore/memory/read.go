package memory

import (
	"context"
	"iter"
	"slices"

	"payledger/domain"
	"payledger/eventstore"
)

// Load implements eventstore.Store.
func (s *Store) Load(ctx context.Context, st eventstore.Stream) iter.Seq2[eventstore.Stored, error] {
	return s.LoadAfter(ctx, st, 0)
}

// LoadAfter implements eventstore.Store.
func (s *Store) LoadAfter(ctx context.Context, st eventstore.Stream, after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		records, err := s.stream(ctx, st, after)
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(eventstore.Stored{}, err)
		}
	}
}

func (s *Store) stream(ctx context.Context, st eventstore.Stream, after eventstore.Position) ([]eventstore.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readable(ctx); err != nil {
		return nil, err
	}
	var records []eventstore.Stored
	for at := s.log.heads[st]; at > after; at = s.log.records[at-1].Prev {
		if at > s.durable {
			continue
		}
		r, err := s.log.read(at)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	slices.Reverse(records)
	return records, nil
}

func (s *Store) readable(ctx context.Context) error {
	if s.closed {
		return eventstore.ErrClosed
	}
	return ctx.Err()
}

// Claimed implements eventstore.Store.
func (s *Store) Claimed(ctx context.Context, project string, key domain.Digest) (eventstore.Stored, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readable(ctx); err != nil {
		return eventstore.Stored{}, false, err
	}
	at := s.log.claims[claimKey{project, key}]
	if at == 0 || at > s.durable {
		return eventstore.Stored{}, false, nil
	}
	r, err := s.log.read(at)
	return r, err == nil, err
}

// Last implements eventstore.Store.
func (s *Store) Last(ctx context.Context) (eventstore.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readable(ctx); err != nil {
		return 0, err
	}
	return s.durable, nil
}

// LastOf implements eventstore.Store.
func (s *Store) LastOf(ctx context.Context, f eventstore.Filter) (eventstore.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readable(ctx); err != nil {
		return 0, err
	}
	if f.ID == "" {
		return s.durable, nil
	}
	for _, at := range slices.Backward(s.log.ids[f.ID]) {
		if at <= s.durable {
			return at, nil
		}
	}
	return 0, nil
}

// Scan implements eventstore.Store.
func (s *Store) Scan(ctx context.Context, after eventstore.Position, f eventstore.Filter) iter.Seq2[eventstore.Stored, error] {
	return eventstore.ScanChunks(ctx, s.chunk, after, f)
}

// Follow implements eventstore.Store.
func (s *Store) Follow(ctx context.Context, after eventstore.Position, f eventstore.Filter, fn func(eventstore.Stored) error) error {
	return eventstore.FollowChunks(ctx, s.chunk, s.wait, after, f, fn)
}

// chunk is an eventstore.Chunk.
func (s *Store) chunk(ctx context.Context, dst []eventstore.Stored, after eventstore.Position, f eventstore.Filter) (_ []eventstore.Stored, reached eventstore.Position, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.readable(ctx); err != nil {
		return dst, after, err
	}
	for reached = after; reached < s.durable && len(dst) < chunk; reached++ {
		r, err := s.log.read(reached + 1)
		if err != nil {
			return dst, reached, err
		}
		if f.Matches(r.Stream) {
			dst = append(dst, r)
		}
	}
	return dst, reached, nil
}

// wait returns nil once a record after the position is durable.
func (s *Store) wait(ctx context.Context, after eventstore.Position) error {
	s.mu.Lock()
	if s.durable > after {
		s.mu.Unlock()
		return nil
	}
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	wake := s.wake
	s.mu.Unlock()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closeCh:
		return eventstore.ErrClosed
	case <-s.fatalCh:
		return s.Err()
	}
}
