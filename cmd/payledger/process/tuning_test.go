package process

import (
	"math"
	"runtime"
	"testing"
)

// The heap may grow to what suits the pace, at most smallHeap, and always by minGrowth.
func TestHeapGrowth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live, pace uint64
		want       int
	}{
		{0, 1 << 30, maxGrowth},
		{1 << 20, 1 << 30, maxGrowth},
		{32 << 20, 1 << 30, 700},
		{32 << 20, 32 << 20, 700},
		{32 << 20, 16 << 20, 300},
		{8 << 20, 0, 700},
		{32 << 20, 0, 100},
		{64 << 20, 0, restGrowth},
		{400 << 20, 7 << 20, restGrowth},
		{400 << 20, 8 << 20, minGrowth},
		{64 << 20, 1 << 30, 300},
		{93 << 20, 1 << 30, 175},
		{94 << 20, 1 << 30, minGrowth},
		{smallHeap, 1 << 30, minGrowth},
		{math.MaxUint64, 1 << 30, minGrowth},
	} {
		if got := heapGrowth(c.live, c.pace); got != c.want {
			t.Errorf("%d bytes in use, %d allocated a second: by %d percent, want %d", c.live, c.pace, got, c.want)
		}
	}
}

func TestHeapNow(t *testing.T) {
	t.Parallel()
	runtime.GC() // before the first there is no figure
	if live, allocated := heapNow(); live == 0 || live > 1<<40 || allocated < live {
		t.Errorf("%d bytes in use, %d allocated", live, allocated)
	}
}
