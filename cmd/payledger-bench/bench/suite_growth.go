package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

func stepsGrowth(b *bench) int { return 2*b.Rounds + 6 }

// growth compares a service with a long log to one with a short one, and
// starts the first again after a crash.
func (b *bench) growth(ctx context.Context) error {
	const suite = "growth"
	d, err := b.longLog(ctx)
	if err != nil {
		return err
	}
	small := min(shortLog, max(1, b.Payments/10))
	b.step("writing a log of %d payments", small)
	short, err := b.filled(ctx, "short", small)
	if err != nil {
		return err
	}
	of, name := payments(b.Payments), payments(small)
	long, used, err := b.grown(ctx, d, of)
	if err != nil {
		return err
	}
	base, usedBase, err := b.grown(ctx, short, name)
	if err != nil {
		return err
	}
	b.memoryRows(used, usedBase, b.Payments-small, "of "+of+" over that of "+name)
	if err := b.diskRows(d, of); err != nil {
		return err
	}

	m, err := b.measure(ctx, "POST with a long log, 64 connections", load{Connections: 64}, creators(long, base))
	if err != nil {
		return err
	}
	b.row(Row{
		Suite: suite, Name: "POST with " + of + ", 64 connections", Unit: "payments/s", Figure: m[0].rate.median(), Note: latencyNote(m[0]),
		Must: m[0].rate.atLeast(0.85, name, m[1].rate), Aim: m[0].rate.atLeast(0.95, name, m[1].rate),
	})
	b.row(Row{
		Suite: suite, Name: "POST with " + of + ": p99", Unit: "ms", Figure: m[0].p99.median(),
		Must: m[0].p99.atMost(1.5, name, m[1].p99), Aim: m[0].p99.atMost(1.1, name, m[1].p99),
	})
	return b.crash(ctx, d, long, of)
}

func payments(n int) string { return number(float64(n)) + " payments" }

// grown serves a filled directory and answers the memory that takes, once this
// very process has copied all of the log into JetStream: after a restart less
// of JetStream's index is in memory, until it is needed.
func (b *bench) grown(ctx context.Context, d directory, name string) (*target, memory, error) {
	b.step("relaying %s", name)
	if err := os.RemoveAll(filepath.Join(d.path, "nats")); err != nil {
		return nil, memory{}, err
	}
	t, err := b.serve(ctx, d, b.SyncDelay)
	if err != nil {
		return nil, memory{}, err
	}
	t.name = name
	if _, err := t.caughtUp(ctx, d.filled.Events); err != nil {
		return nil, memory{}, err
	}
	if b.Payments > shortLog { // else the figure means nothing anyway
		if err := sleep(ctx, blocksExpire); err != nil {
			return nil, memory{}, err
		}
	}
	m, err := t.memory(ctx)
	return t, m, err
}

// blocksExpire is when JetStream has let go of the blocks it wrote last.
const blocksExpire = 12 * time.Second

// memory is what a service takes of it, in bytes.
type memory struct {
	heap     float64 // live, after a collection
	resident float64 // not mapped from files; with what the runtime has not given back yet
}

// memory is asked of a service that is idle.
func (t *target) memory(ctx context.Context) (m memory, err error) {
	for range 2 { // what finalisers free goes with the second
		if err := t.fetch(ctx, "/debug/pprof/heap?gc=1", io.Discard); err != nil {
			return m, err
		}
	}
	m.resident = float64(anonymousMemory(t.pid))
	m.heap, err = t.metric(ctx, "go_memstats_heap_alloc_bytes")
	return m, err
}

// tellingLog is how many payments it takes for their memory to stand out from
// what the runtime keeps for the next garbage.
const tellingLog = 1_000_000

func (b *bench) memoryRows(long, base memory, payments int, of string) {
	each := func(a, b float64) float64 { return (a - b) / (1 << 20) / float64(payments) * 1e6 }
	resident := each(long.resident, base.resident)
	row := Row{
		Suite: "growth", Name: "resident memory for each million payments", Unit: "MiB", Figure: resident,
		Note: "not mapped from files, " + of,
	}
	if payments*2 > tellingLog {
		row.Must, row.Aim = figureAtMost(450, resident), figureAtMost(320, resident)
	} else {
		row.Note += "; too few to judge by"
	}
	b.row(row)
	b.row(Row{
		Suite: "growth", Name: "live heap for each million payments", Unit: "MiB", Figure: each(long.heap, base.heap), Note: of,
	})
}

func (b *bench) diskRows(d directory, of string) error {
	sizes := make(map[string]float64)
	for _, name := range []string{"ledger.db", "projections.db", "nats"} {
		n, err := diskUse(filepath.Join(d.path, name))
		if err != nil {
			return err
		}
		sizes[name] = float64(n) / 1024 / float64(b.Payments)
	}
	kib := sizes["ledger.db"] + sizes["projections.db"]
	b.row(Row{
		Suite: "growth", Name: "disk for each payment", Unit: "KiB", Figure: kib, Note: fmt.Sprintf("five events, %s: log %.2f, projections %.2f", of, sizes["ledger.db"], sizes["projections.db"]),
		Must: figureAtMost(4, kib), Aim: figureAtMost(2, kib),
	})
	b.row(Row{
		Suite: "growth", Name: "JetStream's disk for each payment", Unit: "KiB", Figure: sizes["nats"],
	})
	return nil
}

// crash kills the service under load and starts it again. What it had
// acknowledged must be there.
func (b *bench) crash(ctx context.Context, d directory, t *target, of string) error {
	b.step("killing the service under load")
	loaded := make(chan error, 1)
	go func() {
		_, err := drive(ctx, t, load{Connections: 64, Duration: b.Duration + patience}, create(&t.acks))
		loaded <- err
	}()
	err := sleep(ctx, b.Duration/2)
	t.kill()
	if <-loaded == nil && err == nil {
		return fmt.Errorf("%s answered after it was killed", t.name)
	}
	if err != nil {
		return err
	}
	b.step("starting it again")
	start := time.Now()
	again, err := b.serve(ctx, d, b.SyncDelay)
	if err != nil {
		return err
	}
	if err := again.readyz(ctx); err != nil {
		return err
	}
	took := time.Since(start).Seconds()
	must, aim := 3.0, 0.5
	if b.Payments > 1_000_000 {
		must, aim = 10, 1
	}
	b.row(Row{
		Suite: "growth", Name: "ready after kill -9 with " + of, Unit: "s", Figure: took,
		Must: figureAtMost(must, took), Aim: figureAtMost(aim, took),
	})
	again.acks.pages = t.acks.pages
	return b.checkAcks(ctx, again)
}

// readyz waits until /readyz answers 200.
func (t *target) readyz(ctx context.Context) error {
	clients, err := t.dialAll(ctx, 1)
	if err != nil {
		return err
	}
	c := clients[0]
	defer c.close()
	if err := c.within(patience); err != nil {
		return err
	}
	for {
		a, err := c.do(t.request("GET", "/readyz", "", ""))
		if err != nil || a.status == 200 {
			return err
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}
