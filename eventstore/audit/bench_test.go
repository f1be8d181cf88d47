package audit

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
)

// benchLog is a log of n payments that were routed, paid, and one in four
// refunded.
func benchLog(b *testing.B, n int) (*world, []eventstore.Stored) {
	b.Helper()
	w := newWorld(b)
	for i := range n {
		id := w.create(true)
		w.route(id)
		w.signal(id, domain.OutcomePaid, fmt.Sprintf("sandbox-01M7XKRXY29F43DEMM81J%05d", i), nil)
		if i%4 == 0 {
			w.refund(id)
		}
	}
	records := w.records()
	return w, records
}

func perEvent(b *testing.B, n int) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/event")
}

// BenchmarkCheck measures the processor time of a check, and its ratio to decoding
// alone in the same run.
func BenchmarkCheck(b *testing.B) {
	w, records := benchLog(b, 5000)
	var checking, decoding time.Duration
	for b.Loop() {
		start := processorTime(b)
		r, err := Check(b.Context(), listed(records), Options{Codec: w.ledger.Codec})
		if err != nil || !r.OK() {
			b.Fatal(r, err)
		}
		between := processorTime(b)
		for _, r := range records {
			if _, err := w.ledger.Codec.Decode(r); err != nil {
				b.Fatal(err)
			}
		}
		checking, decoding = checking+between-start, decoding+processorTime(b)-between
	}
	b.ReportMetric(float64(checking.Nanoseconds())/float64(b.N)/float64(len(records)), "cpu-ns/event")
	b.ReportMetric(float64(checking)/float64(decoding), "of-decoding")
}

// processorTime is what the process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkDecode(b *testing.B) {
	w, records := benchLog(b, 5000)
	for b.Loop() {
		for _, r := range records {
			if _, err := w.ledger.Codec.Decode(r); err != nil {
				b.Fatal(err)
			}
		}
	}
	perEvent(b, len(records))
}

// BenchmarkPacked measures the bytes kept for a payment, without the map.
func BenchmarkPacked(b *testing.B) {
	w, _ := benchLog(b, 1000)
	k := newEncoder()
	var bytes int
	for b.Loop() {
		bytes = 0
		for _, p := range w.states {
			p = checked(p)
			bytes += len(k.encode(&payment{head{position: 1 << 20, sequence: 4}, 1 << 19, false, p}))
		}
	}
	b.ReportMetric(float64(bytes)/float64(len(w.states)), "bytes/payment")
}
