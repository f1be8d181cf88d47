package projections

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/projections/projectiontest"
)

// requests is the log of n payments as many clients make them: 64 at a time
// are created, and then get their routes.
func requests(b *testing.B, w *world, n int) []eventstore.Stored {
	b.Helper()
	const clients = 64
	project := "prj_" + w.IDs.Next().String()
	w.CommandProject(project, projects.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()})
	table := domain.RoutingTable{{Route: "sandbox", Currency: "RUB", Min: 1, Max: domain.MaxAmount, Weight: 1}}
	description := "order-1042"
	for range n / clients {
		w.Now = w.Now.Add(7 * time.Millisecond)
		var created []domain.Payment
		for range clients {
			id, event := w.IDs.Pair()
			p := domain.Payment{Project: project, ID: id}
			key := sha256.Sum256(id[:])
			w.Command(p, domain.CreatePayment{
				At: domain.IDTime(event), Amount: 150000, Currency: "RUB", Description: &description,
				Payload: domain.JSON(`{"cart":7,"customer":"c-8841"}`), Settings: domain.DefaultSettings(),
				Link:        domain.Link{Base: "http://127.0.0.1:8080", KeyVersion: 1, Render: 1},
				Idempotency: &domain.Idempotency{Key: key, Fingerprint: key},
			}, event)
			created = append(created, p)
		}
		for _, p := range created {
			w.Command(p, domain.AssignRoute{Table: table}, w.IDs.Next())
		}
	}
	return w.Records()
}

// BenchmarkLive folds requests one event at a time and flushes as often as a
// busy server does. It measures the processor time for each payment.
func BenchmarkLive(b *testing.B) {
	const perFlush = 2 * 8192
	w := seeded(b, 1)
	config := w.config(b.TempDir())
	all := requests(b, w, 1<<15)
	empty := seeded(b, 2)
	empty.LogID = w.LogID
	var folding, flushing, decoding time.Duration
	for i := 0; b.Loop(); i++ {
		c := config
		c.Path, c.Store = fmt.Sprint(config.Path, i), empty.Store
		e := open(b, c)
		last := projectiontest.ProcessorTime(b)
		lap := func(sum *time.Duration) {
			now := projectiontest.ProcessorTime(b)
			*sum, last = *sum+now-last, now
		}
		for n, r := range all {
			must(b, e.apply(r))
			if (n+1)%perFlush == 0 {
				lap(&folding)
				must(b, e.flush())
				lap(&flushing)
			}
		}
		lap(&folding)
		for _, r := range all {
			if d := e.decode(r); d.err != nil {
				b.Fatal(d.err)
			}
		}
		lap(&decoding)
		must(b, e.Close())
	}
	payments := float64(b.N) * float64(len(all)) / 2
	b.ReportMetric(float64(folding.Nanoseconds())/payments, "fold-ns/payment")
	b.ReportMetric(float64(decoding.Nanoseconds())/payments, "decode-ns/payment")
	b.ReportMetric(float64(flushing.Nanoseconds())/payments, "flush-ns/payment")
}
