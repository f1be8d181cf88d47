package memory_test

import (
	"testing"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
)

func TestAppendLoad(t *testing.T) {
	t.Parallel()
	s := memory.New()
	st := eventstore.ProjectStream("prj_1")
	c := eventstore.Commit{ID: domain.ID{1}, Record: eventstore.Record{Stream: st, Body: []byte("{}")}}
	if _, err := s.Append(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	n := 0
	for r, err := range s.Load(t.Context(), st) {
		if err != nil || r.Position != 1 || r.Sequence != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		n++
	}
	if n != 1 {
		t.Fatalf("%d records", n)
	}
}
