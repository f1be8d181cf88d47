package bench

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latency sums up how long requests took, in milliseconds.
type Latency struct {
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

// Everything slower than the highest latency counts as that.
const (
	lowestLatency  = time.Microsecond
	highestLatency = time.Minute
	latencyDigits  = 3
)

// latencies sums up durations.
func latencies(parts ...[]time.Duration) Latency {
	h := hdrhistogram.New(int64(lowestLatency), int64(highestLatency), latencyDigits)
	if len(slices.Concat(parts...)) == 0 {
		return Latency{}
	}
	for _, part := range parts {
		for _, d := range part {
			_ = h.RecordValue(int64(min(max(d, lowestLatency), highestLatency))) // within its bounds
		}
	}
	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	return Latency{
		P50: ms(h.ValueAtQuantile(50)), P99: ms(h.ValueAtQuantile(99)), P999: ms(h.ValueAtQuantile(99.9)), Max: ms(h.Max()),
	}
}
