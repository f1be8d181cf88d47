package projections

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
)

// records is the log of n payments' lives, five events each.
func records(b *testing.B, w *world, n int) []eventstore.Stored {
	b.Helper()
	w.project()
	table := domain.RoutingTable{{Route: "sandbox", Currency: "RUB", Min: 1, Max: domain.MaxAmount, Weight: 1}}
	for i := range n {
		id, event := w.ids.Pair()
		description := fmt.Sprintf("order-%d", i)
		p := domain.Payment{Project: "prj_0", ID: id}
		w.command(p, domain.CreatePayment{
			At: domain.IDTime(event), Amount: domain.Amount(1 + i%1000), Currency: "RUB", Description: &description,
			Payload: domain.JSON(`{"cart":7,"customer":"4711"}`), Settings: domain.DefaultSettings(),
		}, event)
		w.order = append(w.order, id)
		p = w.payments[id]
		w.command(p, domain.AssignRoute{Table: table}, w.ids.Next())
		signal := domain.Signal{
			Route: "sandbox", Outcome: domain.OutcomePaid, Reference: description, Amount: p.Amount, Currency: "RUB", StartedAt: p.CreatedAt,
		}
		w.command(p, domain.ApplySignal{Signal: signal}, w.ids.Next())
		refund, event := w.ids.Pair()
		w.command(p, domain.CreateRefund{At: domain.IDTime(event), RefundID: refund}, event)
		signal.Outcome, signal.RefundID = domain.OutcomeSucceeded, &refund
		w.command(p, domain.ApplySignal{Signal: signal}, w.ids.Next())
	}
	return recorded(b, w)
}

// recorded is all that the log holds.
func recorded(b *testing.B, w *world) []eventstore.Stored {
	b.Helper()
	var all []eventstore.Stored
	for r, err := range w.store.Scan(b.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// BenchmarkRebuild folds a log of 5 events a payment into a new file, synced
// flushes included.
func BenchmarkRebuild(b *testing.B) {
	w := seeded(b, 1)
	besideDecoding(b, w, records(b, w, 20_000), func() {
		e, err := Open(b.Context(), w.config(b.TempDir()))
		if err != nil {
			b.Fatal(err)
		}
		_ = e.Close()
	})
}

// besideDecoding tells how much processor time folding the records takes, and
// how much of decoding alone that is in the same run.
func besideDecoding(b *testing.B, w *world, all []eventstore.Stored, fold func()) {
	b.Helper()
	var folding, decoding time.Duration
	for b.Loop() {
		start := processorTime(b)
		fold()
		between := processorTime(b)
		for _, r := range all {
			if _, err := w.codec.Decode(r); err != nil {
				b.Fatal(err)
			}
		}
		folding, decoding = folding+between-start, decoding+processorTime(b)-between
	}
	b.ReportMetric(float64(folding.Nanoseconds())/float64(b.N)/float64(len(all)), "cpu-ns/event")
	b.ReportMetric(float64(folding)/float64(decoding), "of-decoding")
}

// BenchmarkDecode is the part of a fold that only decodes.
func BenchmarkDecode(b *testing.B) {
	w := seeded(b, 1)
	all := records(b, w, 1000)
	b.ResetTimer()
	for i := range b.N {
		if _, err := w.codec.Decode(all[i%len(all)]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkRead compares reads with a map under a lock.
func BenchmarkRead(b *testing.B) {
	w := seeded(b, 1)
	records(b, w, 20_000)
	file := open(b, w.config(b.TempDir())) // rebuilt: all in the file
	recent := open(b, seeded(b, 2).config(b.TempDir()))
	recent.store, recent.limit = w.store, 1<<30 // all in memory
	if err := recent.catchUp(b.Context(), nil, false); err != nil {
		b.Fatal(err)
	}

	var mu sync.RWMutex
	rows := make(map[domain.ID]*domain.Payment)
	for id, p := range w.payments {
		rows[id] = &p
	}
	some := func() domain.ID { return w.order[rand.IntN(len(w.order))] }
	b.Run("map", func(b *testing.B) {
		for range b.N {
			mu.RLock()
			p := *rows[some()]
			mu.RUnlock()
			_ = p
		}
	})
	read := func(e *Engine) func(*testing.B) {
		return func(b *testing.B) {
			for range b.N {
				if _, ok, err := e.Payment(b.Context(), some()); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		}
	}
	cold := open(b, w.config(b.TempDir()))
	cold.payments.lately = nil
	b.Run("payment/file", read(cold))
	b.Run("payment/lately", read(file))
	b.Run("payment/memory", read(recent))
	b.Run("project", func(b *testing.B) {
		for range b.N {
			if _, ok, err := file.Project(b.Context(), "prj_0"); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	for name, q := range map[string]PaymentQuery{
		"newest": {Limit: 20}, "status": {Status: domain.Paid, Limit: 20},
		"amount": {Min: 77, Max: 77, Limit: 20}, "nothing": {Min: domain.MaxAmount, Limit: 20},
		"words/dense": {DescriptionWords: []string{"1", "order"}, Limit: 20}, "words/sparse": {DescriptionWords: []string{"777", "order"}, Limit: 20},
		"words/none": {DescriptionWords: []string{"order", "x"}, Limit: 20}, "words/status": {DescriptionWords: []string{"order"}, Status: domain.Created, Limit: 20},
		"prefix/dense": {DescriptionPrefix: "order-1", Limit: 20}, "prefix/sparse": {DescriptionPrefix: "order-777", Limit: 20},
	} {
		b.Run("list/"+name, func(b *testing.B) {
			for range b.N {
				if _, err := file.Payments(b.Context(), "prj_0", q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
