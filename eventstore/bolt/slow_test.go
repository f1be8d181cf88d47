package bolt

import (
	"testing"
	"time"

	"payledger/eventstore"
)

// TestSyncDelay: both syncs of a group are delayed before anything is answered.
func TestSyncDelay(t *testing.T) {
	t.Parallel()
	const delay = 20 * time.Millisecond
	s, err := Open(newLog(t), Options{SyncDelay: delay})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := eventstore.AppendOne(t.Context(), s, loadCommit(0, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 2*delay {
		t.Errorf("a commit took %v, want twice %v or more", took, delay)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
