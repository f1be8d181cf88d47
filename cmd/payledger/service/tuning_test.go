package service

import (
	"math"
	"testing"
)

// The heap may grow to smallHeap, and always by leastGrowth.
func TestHeapGrowth(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{
		0: mostGrowth, 1 << 20: mostGrowth, 32 << 20: 700, 64 << 20: 300, 93 << 20: 175, 94 << 20: leastGrowth,
		smallHeap: leastGrowth, math.MaxUint64: leastGrowth,
	} {
		if got := heapGrowth(live); got != want {
			t.Errorf("%d bytes in use: by %d percent, want %d", live, got, want)
		}
	}
}

func TestLiveHeapIsTold(t *testing.T) {
	t.Parallel()
	if live := liveHeap(); live == 0 || live > 1<<40 {
		t.Errorf("%d bytes", live)
	}
}
