package translog_test

import (
	"errors"
	"slices"
	"testing"

	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// TestStreaming compares a whole log, and the same log after each kind of change,
// with checkpoints of several sizes.
func TestStreaming(t *testing.T) {
	t.Parallel()
	const n = 100
	s := tree(t, n)
	checkpoint := func(size int) translog.Checkpoint {
		return translog.Checkpoint{Origin: "o", Size: eventstore.Position(size), Root: rootAt(t, size, s)}
	}
	checkpoints := []translog.Checkpoint{checkpoint(n), checkpoint(0), checkpoint(37), checkpoint(64), checkpoint(37)}
	read := func(log [][]byte, c ...translog.Checkpoint) (at eventstore.Position, err error) {
		r := translog.NewStreaming(c...)
		for _, b := range log {
			if err := r.Append(b); err != nil {
				return r.Size(), err
			}
		}
		return r.Size(), nil
	}
	whole := make([][]byte, n)
	for i := range whole {
		whole[i] = event(i)
	}
	if at, err := read(whole, checkpoints...); err != nil || at != n {
		t.Fatalf("the whole log: %v at %d", err, at)
	}
	if _, err := read(append(slices.Clone(whole), event(n)), checkpoints...); err != nil {
		t.Errorf("a log that went on: %v", err)
	}

	forged := slices.Clone(whole)
	forged[20] = []byte(`{"sequence":20 }`)
	swapped := slices.Clone(whole)
	swapped[50], swapped[51] = swapped[51], swapped[50]
	removed := slices.Delete(slices.Clone(whole), 30, 31)
	added := slices.Insert(slices.Clone(whole), 5, event(5))
	for name, c := range map[string]struct {
		log [][]byte
		at  eventstore.Position
	}{
		"forged": {forged, 37}, "swapped": {swapped, 64}, "added": {added, 37}, "removed": {removed, 37},
	} {
		var m *translog.MismatchError
		at, err := read(c.log, checkpoints...)
		if !errors.As(err, &m) || at != c.at || m.Checkpoint.Size != c.at {
			t.Errorf("%s: got %v at %d, want a mismatch at %d", name, err, at, c.at)
		}
	}
	wrong := checkpoint(0)
	wrong.Root[0]++
	var m *translog.MismatchError
	if at, err := read(whole, wrong); !errors.As(err, &m) || at != 1 {
		t.Errorf("a wrong checkpoint of the empty log: %v at %d", err, at)
	}
	r := translog.NewStreaming(wrong)
	for _, b := range whole {
		_ = r.Append(b)
	}
	if root := rootAt(t, n, s); r.Size() != n || r.Root() != root {
		t.Errorf("after a mismatch the tree of %d events has the root %s, want %s", r.Size(), r.Root(), root)
	}
}
