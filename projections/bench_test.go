package projections

import (
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"payledger/domain"
	"payledger/projections/views"
)

// BenchmarkRebuild folds a log of five events a payment into a new file.
func BenchmarkRebuild(b *testing.B) {
	w := seeded(b, 1)
	const payments = 20_000
	var size int64
	w.BesideDecoding(b, w.Lives(payments), func() {
		c := w.config(b.TempDir())
		must(b, open(b, c).Close())
		info, err := os.Stat(c.Path)
		must(b, err)
		size = info.Size()
	})
	b.ReportMetric(float64(size)/payments, "file-B/payment")
}

// BenchmarkDecode is the part of a fold that only decodes.
func BenchmarkDecode(b *testing.B) {
	w := seeded(b, 1)
	all := w.Lives(1000)
	b.ResetTimer()
	for i := range b.N {
		if _, err := w.Codec.Decode(all[i%len(all)]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkRead compares reads with a map under a lock.
func BenchmarkRead(b *testing.B) {
	w := seeded(b, 1)
	w.Lives(20_000)
	file := open(b, w.config(b.TempDir())) // rebuilt: all in the file
	recent := open(b, seeded(b, 2).config(b.TempDir()))
	recent.store, recent.limit = w.Store, 1<<30 // all in memory
	if err := recent.catchUp(b.Context(), nil, false); err != nil {
		b.Fatal(err)
	}

	var mu sync.RWMutex
	rows := make(map[domain.ID]*domain.Payment)
	for id, p := range w.Payments {
		rows[id] = &p
	}
	some := func() domain.ID { return w.Order[rand.IntN(len(w.Order))] }
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
	c := w.config(b.TempDir())
	c.cachedPayments = 1
	b.Run("payment/file", read(open(b, c)))
	b.Run("payment/cached", read(file))
	b.Run("payment/memory", read(recent))
	b.Run("project", func(b *testing.B) {
		for range b.N {
			if _, ok, err := file.Project(b.Context(), w.Projects[0]); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	})
	for name, q := range map[string]views.PaymentQuery{
		"newest": {Limit: 20}, "status": {Status: domain.Paid, Limit: 20},
		"amount": {Min: 77, Max: 77, Limit: 20}, "nothing": {Min: domain.MaxAmount, Limit: 20},
		"words/dense": {DescriptionTerms: []string{"1", "order"}, Limit: 20}, "words/sparse": {DescriptionTerms: []string{"777", "order"}, Limit: 20},
		"words/none": {DescriptionTerms: []string{"order", "x"}, Limit: 20}, "words/status": {DescriptionTerms: []string{"order"}, Status: domain.Created, Limit: 20},
		"prefix/dense": {DescriptionPrefix: "order-1", Limit: 20}, "prefix/sparse": {DescriptionPrefix: "order-777", Limit: 20},
	} {
		b.Run("list/"+name, func(b *testing.B) {
			for range b.N {
				if _, err := file.Payments(b.Context(), w.Projects[0], q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUncollected counts what is open of 10,000 payments, as is done once a
// minute, and does the same by reading each payment.
func BenchmarkUncollected(b *testing.B) {
	w := seeded(b, 1)
	const payments = 10_000
	w.Handed(payments)
	e := open(b, w.config(b.TempDir()))
	count := func(b *testing.B, one func(domain.ID) error) {
		for b.Loop() {
			n := 0
			err := e.EachUncollected(b.Context(), domain.ID{}, math.MaxInt, func(_ domain.Outstanding, id domain.ID) error {
				n++
				return one(id)
			})
			if err != nil || n != payments {
				b.Fatal(n, err)
			}
		}
	}
	b.Run("rows", func(b *testing.B) { count(b, func(domain.ID) error { return nil }) })
	b.Run("payments", func(b *testing.B) {
		count(b, func(id domain.ID) error {
			_, _, err := e.Payment(b.Context(), id)
			return err
		})
	})
}
