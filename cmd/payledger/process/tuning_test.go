package process

import (
	"math"
	"runtime"
	"testing"
)

// The heap may grow to smallHeap, and always by minGrowth.
func TestHeapGrowth(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{
		0: maxGrowth, 1 << 20: maxGrowth, 32 << 20: 700, 64 << 20: 300, 93 << 20: 175, 94 << 20: minGrowth,
		smallHeap: minGrowth, math.MaxUint64: minGrowth,
	} {
		if got := heapGrowth(live); got != want {
			t.Errorf("%d bytes in use: by %d percent, want %d", live, got, want)
		}
	}
}

func TestLiveHeap(t *testing.T) {
	t.Parallel()
	runtime.GC() // before the first there is no figure
	if live := liveHeap(); live == 0 || live > 1<<40 {
		t.Errorf("%d bytes", live)
	}
}
