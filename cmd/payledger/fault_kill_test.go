package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"payledger/cmd/payledger/datadir"
)

// TestKillLoop kills the server again and again: under load, during its start,
// during the catch-up of the projections, and during the rebuild of JetStream.
// Nothing acknowledged is lost, and nothing happens twice.
func TestKillLoop(t *testing.T) {
	t.Parallel()
	h := newShop(t, filepath.Join(t.TempDir(), "data"))
	d := datadir.Dir(h.data)
	var before string // a copy of the directory, some kills ago
	for round := range rounds(2, 8) {
		s := h.serve(t)
		wait := h.open(s, 32, 1<<16, round)
		h.mu.Lock()
		goal := len(h.made) + 150
		h.mu.Unlock()
		h.until(t, "payments are made", func() bool { return len(h.made) >= goal })
		s.kill()
		wait()
		if round == 0 {
			before = filepath.Join(t.TempDir(), "before")
			if out, err := exec.Command("cp", "-r", h.data, before).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		// Starts that are killed early, with more or less to rebuild.
		for i, after := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond, 70 * time.Millisecond} {
			if i%2 == 0 {
				removeAll(t, d.NATS())
			}
			if (i+round)%3 == 0 {
				removeAll(t, d.Projections())
			}
			ctx, cancel := context.WithTimeout(t.Context(), after)
			_ = exec.CommandContext(ctx, "payledger", append(h.args(), "--listen", "127.0.0.1:0")...).Run()
			cancel()
		}
		s = h.serve(t)
		h.intact(t, "after a kill", s)
		s.kill()
	}
	if len(h.refunds) == 0 {
		t.Error("no payment was refunded")
	}

	// The control: an older state of the ledger is found.
	removeAll(t, h.data)
	if err := os.Rename(before, h.data); err != nil {
		t.Fatal(err)
	}
	if wrongs := h.wrongs(t, h.serve(t)); len(wrongs) == 0 {
		t.Error("an older copy of the ledger passes for the newest")
	}
}
