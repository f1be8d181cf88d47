package notifier

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/acquirer"
)

func TestWorkersTakeUpWhatWasLeft(t *testing.T) {
	t.Parallel()
	b, dir := newBook(t), t.TempDir()
	for range 3 {
		b.routed(t)
		s := startServer(t, ServerConfig{Dir: dir})
		c := connectTo(t, s)
		stopRelay := run(t, newRelay(c, b).Run)
		for range 30 { // before the workers are there
			b.create(t, time.Hour)
		}
		sameAsLog(t, c.JetStream(), b)
		stop := run(t, newWorkers(t, c, b).Run)
		for range 30 {
			b.create(t, time.Hour)
		}
		allRouted(t, b)
		stop()
		for range 30 { // for the next round
			b.create(t, time.Hour)
		}
		stopRelay()
		c.Close()
		s.Shutdown()
	}
}

func TestDispatcherSurvivesTheLossOfItsConsumer(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	c := connectTo(t, startServer(t, ServerConfig{}))
	run(t, newRelay(c, b).Run)
	run(t, newWorkers(t, c, b).Run)
	for i := range 4 {
		for range 20 {
			b.create(t, time.Hour)
		}
		allRouted(t, b)
		sameAsLog(t, c.JetStream(), b)
		if i%2 == 0 {
			deleteConsumers(t, c)
		} else if err := c.JetStream().DeleteStream(t.Context(), EventsStream); err != nil {
			t.Fatal(err)
		}
	}
	b.create(t, time.Hour)
	allRouted(t, b)
}

// TestWorkersAfterTheLogWasRestored starts the workers on a copy that is longer
// than the log, before the relay has made it anew: they must not go on from
// where that copy ends.
func TestWorkersAfterTheLogWasRestored(t *testing.T) {
	t.Parallel()
	longer, restored := newBook(t), newBook(t)
	restored.logID = longer.logID
	for range 30 {
		longer.create(t, time.Hour)
	}
	c := connectTo(t, startServer(t, ServerConfig{}))
	stop := run(t, newRelay(c, longer).Run)
	sameAsLog(t, c.JetStream(), longer)
	stop()

	restored.routed(t)
	w := newWorkers(t, c, restored)
	run(t, w.Run)
	eventually(t, "the workers see that the copy is not of this log", func() bool { return w.Err() != nil })
	run(t, newRelay(c, restored).Run)
	for range 10 {
		restored.create(t, time.Hour)
	}
	allRouted(t, restored)
	eventually(t, "the workers are well", func() bool { return w.Err() == nil })
}

// diary is an acquirer that writes down what it is told, and can fail or hang.
type diary struct {
	route string
	hang  chan struct{} // nil: does not

	mu    sync.Mutex
	fails int
	told  []string
}

func (d *diary) Route() string { return d.route }

func (d *diary) Assigned(ctx context.Context, p domain.Payment) error {
	return d.write(ctx, "assigned "+p.ID.String()+" "+p.Route)
}

func (d *diary) RefundRequested(ctx context.Context, p domain.Payment, r domain.Refund) error {
	return d.write(ctx, "refund "+p.ID.String()+" "+r.ID.String())
}

func (d *diary) write(ctx context.Context, entry string) error {
	if d.hang != nil {
		select {
		case <-d.hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails > 0 {
		d.fails--
		return errors.New("the provider is out")
	}
	d.told = append(d.told, entry)
	return nil
}

func (d *diary) entries() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.told)
}

func TestAcquirersHearOfTheirPayments(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	c := connectTo(t, startServer(t, ServerConfig{}))
	run(t, newRelay(c, b).Run)
	quick, stuck := &diary{route: "quick", fails: 2}, &diary{route: "stuck", hang: make(chan struct{})}
	table := domain.RoutingTable{
		{Route: "stuck", Min: 1, Max: domain.MaxAmount, Weight: 1},
		{Route: "quick", Min: 1, Max: domain.MaxAmount, Weight: 1},
	}
	w, err := NewWorkers(WorkersConfig{
		Conn: c, Ledger: b.Ledger, LogID: b.logID, IDs: b.ids, Now: b.now, Table: table, Unrouted: views{b}, Due: views{b},
		Acquirers: []acquirer.Acquirer{stuck, quick}, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, w.Run)
	var want []string
	for range 20 {
		id := b.create(t, time.Hour)
		eventually(t, "it has a route", func() bool { return b.payment(t, id).Status != domain.Created })
		if p := b.payment(t, id); p.Route == "quick" {
			want = append(want, "assigned "+id.String()+" quick")
			s := paid(p)
			s.Route = "quick"
			b.do(t, id, domain.ApplySignal{Signal: s})
			refund := b.ids.Next()
			b.do(t, id, domain.CreateRefund{RefundID: refund})
			want = append(want, "refund "+id.String()+" "+refund.String())
		}
	}
	eventually(t, "the quick one has heard all", func() bool { return slices.Equal(quick.entries(), want) })
	if told := stuck.entries(); len(told) != 0 {
		t.Errorf("%v", told)
	}
	close(stuck.hang)
	eventually(t, "the stuck one has too", func() bool { return len(stuck.entries()) == 20-len(want)/2 })
}

func TestWorkersRefuseWrongSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]WorkersConfig{
		"table":   {Table: domain.RoutingTable{{Route: "a.b", Min: 1, Max: 2}}},
		"routes":  {Acquirers: []acquirer.Acquirer{&diary{route: "a"}, &diary{route: "a"}}},
		"a route": {Acquirers: []acquirer.Acquirer{&diary{route: "a b"}}},
	} {
		if _, err := NewWorkers(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
