package storetest

import (
	"iter"
	"reflect"

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
