package storetest

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"time"

	"github.com/google/go-cmp/cmp"

	"payledger/eventstore"
)

// load reads a stream that must be readable.
func (s *subject) load(st eventstore.Stream) []eventstore.Stored {
	s.Helper()
	return s.all(s.store.Load(s.Context(), st))
}

func (s *subject) loadAfter(st eventstore.Stream, after eventstore.Position) []eventstore.Stored {
	s.Helper()
	return s.all(s.store.LoadAfter(s.Context(), st, after))
}

func (s *subject) all(loaded iter.Seq2[eventstore.Stored, error]) []eventstore.Stored {
	s.Helper()
	var records []eventstore.Stored
	for r, err := range loaded {
		if err != nil {
			s.Fatalf("loading a stream: %v", err)
		}
		records = append(records, r)
	}
	return records
}

// scan reads all that is after the position and must be readable.
func (s *subject) scan(after eventstore.Position, f eventstore.Filter) []eventstore.Stored {
	s.Helper()
	var records []eventstore.Stored
	for r, err := range s.store.Scan(s.Context(), after, f) {
		if err != nil {
			s.Fatalf("Scan(%d): %v", after, err)
		}
		records = append(records, r)
	}
	return records
}

func (s *subject) last() eventstore.Position {
	s.Helper()
	p, err := s.store.Last(s.Context())
	if err != nil {
		s.Fatalf("Last: %v", err)
	}
	return p
}

func (s *subject) lastOf(f eventstore.Filter) eventstore.Position {
	s.Helper()
	p, err := s.store.LastOf(s.Context(), f)
	if err != nil {
		s.Fatalf("LastOf(%+v): %v", f, err)
	}
	return p
}

// peek runs reads that must show nothing of a group that is under way or has failed.
// On a shared log they may show nothing at all: shown is false then.
func (s *subject) peek(read func(context.Context) error) (shown bool) {
	s.Helper()
	ctx := s.Context()
	if s.log.Shared() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
	}
	err := read(ctx)
	if err == nil {
		return true
	}
	if !s.log.Shared() || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, eventstore.ErrBusy) && !errors.As(err, new(*eventstore.FatalError)) {
		s.Fatalf("reading while a group is under way or after it has failed: %v", err)
	}
	return false
}

func (s *subject) peekLoad(st eventstore.Stream) (records []eventstore.Stored, shown bool) {
	s.Helper()
	shown = s.peek(func(ctx context.Context) error {
		for r, err := range s.store.Load(ctx, st) {
			if err != nil {
				return err
			}
			records = append(records, r)
		}
		return nil
	})
	return records, shown
}

func (s *subject) peekLast() (p eventstore.Position, shown bool) {
	s.Helper()
	shown = s.peek(func(ctx context.Context) (err error) {
		p, err = s.store.Last(ctx)
		return err
	})
	return p, shown
}

func (s *subject) peekClaimed(c eventstore.Commit) (found bool) {
	s.Helper()
	s.peek(func(ctx context.Context) (err error) {
		_, found, err = s.store.Claimed(ctx, c.Record.Stream.Project, c.Claim.Key)
		return err
	})
	return found
}

func (s *subject) claimed(c eventstore.Commit) (eventstore.Stored, bool) {
	s.Helper()
	r, ok, err := s.store.Claimed(s.Context(), c.Record.Stream.Project, c.Claim.Key)
	if err != nil {
		s.Fatalf("Claimed: %v", err)
	}
	return r, ok
}

func (s *subject) same(what string, got, want any) {
	s.Helper()
	if reflect.DeepEqual(got, want) {
		return // cmp is slow
	}
	if d := cmp.Diff(want, got); d != "" {
		s.Errorf("%s (-want +got):\n%s", what, d)
	}
}
