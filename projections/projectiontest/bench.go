package projectiontest

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
)

// Lives registers a project and adds n payments of it with their lives, five
// events each. It answers all that the log holds.
func (w *World) Lives(n int) []eventstore.Stored {
	w.TB.Helper()
	project := "prj_" + w.IDs.Next().String()
	w.Projects = append(w.Projects, project)
	w.CommandProject(project, projects.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()})
	table := domain.RoutingTable{{Route: "sandbox", Currency: "RUB", Min: 1, Max: domain.MaxAmount, Weight: 1}}
	for i := range n {
		w.Now = w.Now.Add(time.Millisecond)
		id, event := w.IDs.Pair()
		description := fmt.Sprintf("order-%d", i)
		p := domain.Payment{Project: project, ID: id}
		w.Command(p, domain.CreatePayment{
			At: domain.IDTime(event), Amount: domain.Amount(1 + i%1000), Currency: "RUB", Description: &description,
			Payload: domain.JSON(`{"cart":7,"customer":"4711"}`), Settings: domain.DefaultSettings(),
		}, event)
		w.Order = append(w.Order, id)
		p = w.Payments[id]
		w.Command(p, domain.AssignRoute{Table: table}, w.IDs.Next())
		signal := domain.Signal{
			Route: "sandbox", Outcome: domain.OutcomePaid, Reference: description, Amount: p.Amount, Currency: "RUB", StartedAt: p.CreatedAt,
		}
		w.Command(p, domain.ApplySignal{Signal: signal}, w.IDs.Next())
		refund, event := w.IDs.Pair()
		w.Command(p, domain.CreateRefund{At: domain.IDTime(event), RefundID: refund}, event)
		signal.Outcome, signal.RefundID = domain.OutcomeSucceeded, &refund
		w.Command(p, domain.ApplySignal{Signal: signal}, w.IDs.Next())
	}
	return w.Records()
}

// Handed registers a project and adds n payments whose customers were redirected to a provider and
// have not paid yet.
func (w *World) Handed(n int) {
	w.TB.Helper()
	project := "prj_" + w.IDs.Next().String()
	w.CommandProject(project, projects.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()})
	table := domain.RoutingTable{{Route: "cards", Currency: "RUB", Min: 1, Max: domain.MaxAmount, Weight: 1}}
	for i := range n {
		id, event := w.IDs.Pair()
		p := domain.Payment{Project: project, ID: id}
		w.Command(p, domain.CreatePayment{
			At: domain.IDTime(event), Amount: 1, Currency: "RUB", Payload: domain.JSON(`{"cart":7}`), Settings: domain.DefaultSettings(),
		}, event)
		w.Command(p, domain.AssignRoute{Table: table}, w.IDs.Next())
		w.Command(p, domain.BeginAttempt{At: domain.IDTime(event), Language: "ru", Merchant: "Shop"}, w.IDs.Next())
		w.Command(p, domain.OfferAttempt{Number: 1, Reference: fmt.Sprintf("order-%d", i), HandOff: domain.HandOffRedirect}, w.IDs.Next())
	}
}

// Records is all that the log holds.
func (w *World) Records() []eventstore.Stored {
	w.TB.Helper()
	var all []eventstore.Stored
	for r, err := range w.Store.Scan(w.TB.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			w.TB.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// BesideDecoding measures how much processor time folding the records takes, and
// how much of decoding alone that is in the same run.
func (w *World) BesideDecoding(b *testing.B, all []eventstore.Stored, fold func()) {
	b.Helper()
	var folding, decoding time.Duration
	for b.Loop() {
		start := ProcessorTime(b)
		fold()
		between := ProcessorTime(b)
		for _, r := range all {
			if _, err := w.Codec.Decode(r); err != nil {
				b.Fatal(err)
			}
		}
		folding, decoding = folding+between-start, decoding+ProcessorTime(b)-between
	}
	b.ReportMetric(float64(folding.Nanoseconds())/float64(b.N)/float64(len(all)), "cpu-ns/event")
	b.ReportMetric(float64(folding)/float64(decoding), "of-decoding")
}

// ProcessorTime is how much processor time the process has used.
func ProcessorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
