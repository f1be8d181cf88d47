package movein

import (
	"errors"
	"path/filepath"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// TestLogThatWasLeft: nothing is recorded or shown by a log that was left, although its
// file is still open.
func TestLogThatWasLeft(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := bolt.Init(path, domain.ID{1}); err != nil {
		t.Fatal(err)
	}
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	l := NewLog(file, file)
	id := domain.ID{1, 161, 248, 116, 0, 0, 1, 15: 1}
	stream := eventstore.PaymentStream("prj_01M7W78FJBM8T4R7B5N0C1D2E3", id)
	claim := &eventstore.Claim{Key: domain.Digest{1}}
	commit := eventstore.Commit{ID: id, Claim: claim, Record: eventstore.Record{Stream: stream, Body: []byte(`{}`)}}
	if _, err := eventstore.AppendOne(t.Context(), l, commit); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := l.Claimed(t.Context(), stream.Project, claim.Key); !ok || err != nil {
		t.Fatalf("the claim: %v, %v", ok, err)
	}
	l.Leave()

	next := commit
	next.ID[15], next.Claim, next.Record.Expect = 2, nil, 1
	busy := func(what string, err error) {
		if !errors.Is(err, eventstore.ErrBusy) {
			t.Errorf("%s: %v, want ErrBusy", what, err)
		}
	}
	for _, a := range l.Append(t.Context(), next, next) {
		busy("Append", a.Err)
	}
	for _, err := range l.Load(t.Context(), stream) {
		busy("Load", err)
	}
	for _, err := range l.LoadAfter(t.Context(), stream, 1) {
		busy("LoadAfter", err)
	}
	_, _, err = l.Claimed(t.Context(), stream.Project, claim.Key)
	busy("Claimed", err)
	_, err = l.Last(t.Context())
	busy("Last", err)
	_, err = l.LastOf(t.Context(), eventstore.Filter{})
	busy("LastOf", err)
	if last, err := file.Last(t.Context()); last != 1 || err != nil {
		t.Errorf("the file ends at %d, %v", last, err)
	}
}
