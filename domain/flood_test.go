package domain_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
)

// flooded is a payment with many signals, each with a new reference, decided one
// after the other. Unrecorded refusals are counted as the enforcer does.
type flooded struct {
	payment    domain.Payment
	recorded   []domain.Event
	unrecorded uint64
}

func (f *flooded) come(t *testing.T, s domain.Signal) {
	t.Helper()
	e, err := f.payment.Decide(domain.ApplySignal{Signal: s, Unrecorded: f.unrecorded})
	if unrecorded, ok := errors.AsType[*domain.UnrecordedError](err); ok {
		if unrecorded.Reason == "" || e != nil {
			t.Fatalf("%+v, %v", e, err)
		}
		f.unrecorded++
		return
	}
	if err != nil || e == nil {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, ok := e.(domain.PaymentSignalRefused); ok {
		f.unrecorded = 0
	}
	f.recorded = append(f.recorded, e)
	f.payment = f.payment.Evolve(e)
}

func wrongRoute(n int) domain.Signal {
	return with(word("paid", fmt.Sprint("W", n)), func(s *domain.Signal) { s.Route = "bank" })
}

func lateMoney(n int) domain.Signal {
	return with(word("paid", fmt.Sprint("L", n)), func(s *domain.Signal) { s.Amount-- })
}

func TestRefusalsAreRecordedUpToACapAndThenCounted(t *testing.T) {
	t.Parallel()
	f := flooded{payment: fold(awaiting())}
	for n := range 2000 {
		f.come(t, wrongRoute(n))
	}
	if len(f.recorded) != domain.MaxRefused+4 || len(f.payment.Signals) != domain.MaxRefused {
		t.Errorf("%d recorded, %d kept", len(f.recorded), len(f.payment.Signals))
	}
	var counts []uint64
	for _, e := range f.recorded[domain.MaxRefused:] {
		counts = append(counts, e.(domain.PaymentSignalRefused).Unrecorded)
	}
	if diff := cmp.Diff([]uint64{99, 199, 399, 799}, counts); diff != "" {
		t.Error(diff)
	}
	if f.payment.Refused+f.unrecorded != 2000 {
		t.Errorf("%d and %d refused", f.payment.Refused, f.unrecorded)
	}
	// Recorded signals are recognised when repeated, and the true outcome counts.
	if e, err := f.payment.Decide(signalled(wrongRoute(99))); e != nil || err != nil {
		t.Errorf("%+v, %v", e, err)
	}
	var unrecorded *domain.UnrecordedError
	if e, err := f.payment.Decide(signalled(wrongRoute(100))); e != nil || !errors.As(err, &unrecorded) || unrecorded.Reason != domain.ReasonWrongRoute {
		t.Errorf("%+v, %v", e, err)
	}
	f.come(t, word("paid", "P"))
	if f.payment.Status != domain.Paid || !slices.Contains(f.payment.Signals, word("paid", "P")) {
		t.Errorf("%+v", f.payment)
	}
	// Later signals are decided as usual.
	refused, _ := f.payment.Decide(domain.ApplySignal{Signal: word("failed", "F"), Unrecorded: 5000})
	if diff := cmp.Diff(domain.PaymentSignalRefused{Reason: domain.ReasonFinalStatus, Signal: word("failed", "F"), Unrecorded: 5000}, refused); diff != "" {
		t.Error(diff)
	}
}

// TestLateFundsAreNeverDropped: all are recorded. The payment keeps the first
// ones; for the others the command says whether they were recorded.
func TestLateFundsAreNeverDropped(t *testing.T) {
	t.Parallel()
	f := flooded{payment: fold(awaiting())}
	const all = 3 * domain.MaxLateFunds
	for n := range all {
		f.come(t, lateMoney(n))
	}
	if len(f.recorded) != all || f.payment.LateFunds != all || len(f.payment.Signals) != domain.MaxLateFunds {
		t.Fatalf("%d recorded, %d counted, %d kept", len(f.recorded), f.payment.LateFunds, len(f.payment.Signals))
	}
	again, more := lateMoney(all-1), word("paid", fmt.Sprint("L", all-1))
	for name, tt := range map[string]struct {
		when domain.ApplySignal
		want domain.Event
	}{
		"kept, again":           {domain.ApplySignal{Signal: lateMoney(0)}, nil},
		"not kept, again":       {domain.ApplySignal{Signal: again, Earlier: &again}, nil},
		"not kept, another sum": {domain.ApplySignal{Signal: more, Earlier: &again}, refusedFor(domain.ReasonReferenceConflict, more)},
		"new": {
			domain.ApplySignal{Signal: lateMoney(all)}, lateFor(domain.ReasonWrongAmount, lateMoney(all)),
		},
	} {
		e, err := f.payment.Decide(tt.when)
		if diff := cmp.Diff(tt.want, e); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

// TestAFloodFoldsInLinearTime: beyond the limits, the cost of an event does not
// depend on the number before it, and it takes no memory.
func TestAFloodFoldsInLinearTime(t *testing.T) {
	for name, e := range map[string]domain.Event{
		"refused":    refusedFor(domain.ReasonWrongRoute, wrongRoute(1)),
		"late funds": lateFor(domain.ReasonWrongAmount, lateMoney(1)),
	} {
		p := fold(awaiting())
		for range 2 * domain.MaxRefused {
			p = p.Evolve(e)
		}
		if n := testing.AllocsPerRun(1000, func() { p = p.Evolve(e) }); n > 1 {
			t.Errorf("%s: %v allocations for each event", name, n)
		}
		if n := len(p.Signals); n > domain.MaxRefused {
			t.Errorf("%s: %d signals are kept", name, n)
		}
	}
}

// BenchmarkFoldOfAFlood measures the cost of an event of a flooded stream.
func BenchmarkFoldOfAFlood(b *testing.B) {
	for _, n := range []int{100, 2_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			events := awaiting()
			for i := range n {
				events = append(events, refusedFor(domain.ReasonWrongRoute, wrongRoute(i)))
			}
			for b.Loop() {
				fold(events)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
		})
	}
}
