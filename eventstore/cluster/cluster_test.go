package cluster

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// seeds is how many seeds are played: PAYLEDGER_SEED plays one.
func seeds(t *testing.T) (from, to uint64) {
	if one, err := strconv.ParseUint(os.Getenv("PAYLEDGER_SEED"), 10, 64); err == nil {
		return one, one + 1
	}
	if os.Getenv("PAYLEDGER_LONG") != "" {
		return 0, 2_000
	}
	return 0, 200
}

// Whatever goes wrong: nothing acknowledged is lost, nothing is there twice, all
// nodes have the same records at the same positions, and no read and no refusal is
// older than what was acknowledged before it was asked for.
func TestSimulation(t *testing.T) {
	t.Parallel()
	from, to := seeds(t)
	total := newWorld(0, flaw{}).done
	for seed := from; seed < to; seed++ {
		w := newWorld(seed, flaw{})
		w.run(20 * time.Second)
		if w.wrong != "" {
			t.Fatalf("PAYLEDGER_SEED=%d: %s", seed, w.wrong)
		}
		total.ok += w.done.ok
		total.conflicts += w.done.conflicts
		total.unknown += w.done.unknown
		total.reads += w.done.reads
		total.refusedReads += w.done.refusedReads
		total.takeovers += w.done.takeovers
		total.forgotten += w.done.forgotten
		total.fetched += w.done.fetched
	}
	t.Logf("%+v", total)
	if to-from > 1 && (total.ok < 1000 || total.conflicts == 0 || total.reads < 1000 || total.forgotten == 0 || total.fetched == 0) {
		t.Errorf("too little happened: %+v", total)
	}
}

// Each rule is needed: without it a promise is broken within some hundred seeds.
func TestFlaws(t *testing.T) {
	t.Parallel()
	for what, f := range map[string]flaw{
		"a failed publication taken for a refusal":   {refusedByError: true},
		"chained publications":                       {chained: true},
		"reads without a barrier":                    {noBarrier: true},
		"a barrier that serves later reads":          {lateRiders: true},
		"refusals from a stale file":                 {staleRefusals: true},
		"ids recognised only at the end of a stream": {endOnly: true},
		"two groups in flight":                       {twoInFlight: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(1000) {
				w := newWorld(seed, f)
				w.run(20 * time.Second)
				if w.wrong != "" {
					t.Logf("seed %d: %s", seed, w.wrong)
					return
				}
			}
			t.Error("no seed shows it")
		})
	}
}
