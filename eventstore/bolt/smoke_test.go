package bolt

import (
	"path/filepath"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
)

func TestSmoke(t *testing.T) {
	p := filepath.Join(t.TempDir(), "l.db")
	if err := Init(p, domain.ID{9}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	st := eventstore.ProjectStream("prj_1")
	for i := range 10 {
		r, err := s.Append(t.Context(), eventstore.Commit{ID: domain.ID{byte(i + 1)}, Claim: &eventstore.Claim{Key: domain.Digest{byte(i)}}, Record: eventstore.Record{Stream: st, Expect: eventstore.Position(i), Body: []byte("{}")}})
		if err != nil {
			t.Fatal(i, err)
		}
		_ = r
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = OpenReadOnly(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	for r, err := range s.Load(t.Context(), st) {
		t.Log(r.Position, err)
	}
	s.Close()
}
