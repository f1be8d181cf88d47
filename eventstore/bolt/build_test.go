package bolt

import (
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/eventstore"
)

// scanned reads a whole log.
func scanned(t *testing.T, s *Store) (all []eventstore.Stored) {
	t.Helper()
	for r, err := range s.Scan(t.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		r.Body = slices.Clone(r.Body)
		r.Event = nil
		all = append(all, r)
	}
	return all
}

// without yields the records without Prev, as another source has them.
func without(all []eventstore.Stored) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		for _, r := range all {
			r.Prev = 0
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	_, s := filled(t, 300)
	for i := range 20 { // streams of several records, and claims
		c := numbered(1000 + i)
		c.Record.Stream.ID = "again"
		c.Claim = &eventstore.Claim{Key: domain.Digest{byte(i + 1)}, Fingerprint: domain.Digest{9}}
		if i%3 == 0 {
			c.Claim = &eventstore.Claim{Key: c.Claim.Key, Forever: true}
		}
		all := scanned(t, s)
		if i > 0 {
			c.Record.Expect = all[len(all)-1].Position
		}
		if _, err := eventstore.AppendOne(t.Context(), s, c); err != nil {
			t.Fatal(err)
		}
	}
	want := scanned(t, s)
	path := filepath.Join(t.TempDir(), "built")
	last, err := Build(t.Context(), path, s.LogID(), without(want))
	if err != nil || int(last) != len(want) {
		t.Fatal(last, err)
	}
	if _, err := Build(t.Context(), path, s.LogID(), without(want)); !errors.Is(err, ErrExists) {
		t.Errorf("over a log: %v", err)
	}
	built, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer built.Close()
	if err := built.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, scanned(t, built)); diff != "" {
		t.Error(diff)
	}
	for i, first := range want {
		if first.Claim == nil {
			continue
		}
		if first.Claim.Forever {
			c := numbered(5000 + i)
			c.Claim = first.Claim
			var claimed *eventstore.ClaimedError
			if _, err := eventstore.AppendOne(t.Context(), built, c); !errors.As(err, &claimed) || claimed.Value.Position != want[i].Position {
				t.Errorf("claim for ever of position %d: %v", first.Position, err)
			}
			continue
		}
		got, ok, err := built.Claimed(t.Context(), first.Stream.Project, first.Claim.Key)
		if err != nil || !ok || got.Position != want[i].Position {
			t.Errorf("claim of position %d: %d %v %v", first.Position, got.Position, ok, err)
		}
	}
	one, _ := s.LastID(t.Context())
	if two, err := built.LastID(t.Context()); err != nil || one != two {
		t.Error(one, two, err)
	}

	for name, spoil := range map[string]func([]eventstore.Stored) []eventstore.Stored{
		"a gap":            func(all []eventstore.Stored) []eventstore.Stored { return slices.Delete(all, 3, 4) },
		"another sequence": func(all []eventstore.Stored) []eventstore.Stored { all[3].Sequence++; return all },
		"no body":          func(all []eventstore.Stored) []eventstore.Stored { all[3].Body = nil; return all },
	} {
		_, err := Build(t.Context(), filepath.Join(t.TempDir(), "bad"), s.LogID(), without(spoil(slices.Clone(want))))
		var corrupt *eventstore.CorruptError
		if !errors.As(err, &corrupt) || corrupt.Position != 4 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
