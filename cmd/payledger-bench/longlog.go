package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"payledger/cmd/freeports"
)

// shortLog is the number of payments in the log that a long one is compared with, or a tenth of the
// long one's if that is fewer.
const shortLog = 10_000

// longLog is a data directory with the long log, made when the first suite
// asks for it.
func (b *bench) longLog(ctx context.Context) (directory, error) {
	if b.long == nil {
		d, err := b.filled(ctx, b.payments)
		if err != nil {
			return d, err
		}
		b.long = &d
	}
	return *b.long, nil
}

func (b *bench) filled(ctx context.Context, payments int) (directory, error) {
	b.step("writing a log of %s payments", number(float64(payments)))
	d, err := b.newDirectory(ctx, b.program)
	if err != nil {
		return d, err
	}
	return d, fill(ctx, d.path, d.project.ID, payments)
}

// eventsEach is how many events a payment of a filled log has.
const eventsEach = 4

// logEvents is how many events the payments of the long log have.
func (b *bench) logEvents() float64 { return float64(b.payments * eventsEach) }

// replay measures what reads the log from its first event.
func (b *bench) replay(ctx context.Context) error {
	d, err := b.longLog(ctx)
	if err != nil {
		return err
	}
	b.step("building the projections")
	start := time.Now()
	t, err := b.serve(ctx, b.program, "payledger", d)
	if err != nil {
		return err
	}
	built := series{b.logEvents() / time.Since(start).Seconds()}
	if err := b.end(t, (*target).stop); err != nil {
		return err
	}
	size := ", " + number(b.logEvents()) + " events"
	b.row("building all projections at the start"+size, "events/s", built)
	for _, command := range []struct {
		name string
		args []string
	}{
		{"replay", []string{"replay", "--data", d.path}},
		{"verify", []string{"verify", filepath.Join(d.path, "ledger.db")}},
		{"verify with its projections", []string{"verify", "--data", d.path}},
	} {
		var rates series
		for round := range b.rounds {
			b.step("%s, round %d of %d", command.name, round+1, b.rounds)
			took, err := timed(ctx, nil, b.program, command.args...)
			if err != nil {
				return err
			}
			rates = append(rates, b.logEvents()/took.Seconds())
		}
		b.row(command.name+size, "events/s", rates, rates.itself())
	}
	return nil
}

// relay measures how fast JetStream is given a log it has nothing of.
func (b *bench) relay(ctx context.Context) error {
	d, err := b.longLog(ctx)
	if err != nil {
		return err
	}
	b.step("relaying the log")
	_, perSecond, err := b.relayed(ctx, "payledger", d, b.payments)
	if err != nil {
		return err
	}
	took := series{100_000 / perSecond}
	b.row("backlog of 100 k events", "s", took, took.itself())
	return nil
}

// relayed serves a directory and waits until all of its log is in JetStream,
// which had nothing of it.
func (b *bench) relayed(ctx context.Context, name string, d directory, payments int) (t *target, perSecond float64, err error) {
	if err := os.RemoveAll(filepath.Join(d.path, "nats")); err != nil {
		return nil, 0, err
	}
	if t, err = b.serve(ctx, b.program, name, d); err != nil {
		return nil, 0, err
	}
	first, start := -1.0, time.Now()
	err = until(ctx, "the log is relayed", settleWait+time.Duration(payments)*time.Millisecond, func() (bool, error) {
		position, err := t.metric(ctx, "payledger_relay_position")
		if err != nil {
			return false, err
		}
		if first < 0 {
			first, start = position, time.Now()
		}
		if position < float64(payments*eventsEach) {
			return false, sleep(ctx, 10*time.Millisecond)
		}
		perSecond = (position - first) / time.Since(start).Seconds()
		return true, nil
	})
	return t, perSecond, err
}

// growth compares a payledger with a long log to one with a short one, and
// starts the first again after a crash, and after one with many deliveries pending.
func (b *bench) growth(ctx context.Context) error {
	d, err := b.longLog(ctx)
	if err != nil {
		return err
	}
	few := min(shortLog, max(1, b.payments/10))
	shortDirectory, err := b.filled(ctx, few)
	if err != nil {
		return err
	}
	of := number(float64(b.payments)) + " payments"
	long, heap, resident, err := b.grown(ctx, of, d, b.payments)
	if err != nil {
		return err
	}
	short, heapBefore, residentBefore, err := b.grown(ctx, number(float64(few))+" payments", shortDirectory, few)
	if err != nil {
		return err
	}
	millions := float64(b.payments-few) / 1e6
	each := " for each million payments"
	if b.payments < 500_000 {
		each = ", by too few to judge," + each
	}
	rss := series{(resident - residentBefore) / millions}
	b.row("resident memory"+each, "MiB", rss, rss.itself())
	live := series{(heap - heapBefore) / millions}
	b.row("live heap"+each, "MiB", live, live.itself())
	ledger, jetStream, err := long.disk()
	if err != nil {
		return err
	}
	kib := series{ledger / float64(b.payments)}
	b.row("disk for each payment of four events", "KiB", kib, kib.itself())
	b.row("JetStream's disk for each payment", "KiB", series{jetStream / float64(b.payments)})

	m, err := b.measure(ctx, "POST with a long log, 64 connections", load{connections: 64},
		entrant{long.name, long, creating}, entrant{short.name, short, creating})
	if err != nil {
		return err
	}
	b.row("POST with "+of+", 64 connections", "payments/s", m[0].rate, m[0].rate.over("short log", m[1].rate))
	b.row("p99 of POST with "+of, "ms", m[0].p99, m[0].p99.over("short log", m[1].p99))
	long, err = b.crash(ctx, d, long, of)
	if err != nil {
		return err
	}
	return b.indebted(ctx, d, long, of)
}

// grown serves a filled directory and returns the memory that takes, once this
// very process has copied all of the log into JetStream: after a restart less
// of JetStream's index is in memory, until it is needed.
func (b *bench) grown(ctx context.Context, name string, d directory, payments int) (t *target, heap, resident float64, err error) {
	b.step("relaying %s", name)
	if t, _, err = b.relayed(ctx, name, d, payments); err != nil {
		return nil, 0, 0, err
	}
	if b.payments > shortLog { // else the figure means nothing anyway
		const blocksExpire = 12 * time.Second // then JetStream has let go of the blocks it wrote last
		if err := sleep(ctx, blocksExpire); err != nil {
			return nil, 0, 0, err
		}
	}
	heap, resident, err = t.memory(ctx)
	return t, heap, resident, err
}

// crash kills the service under load and starts it again. Everything it had
// acknowledged must be there, which the end of the suite checks.
func (b *bench) crash(ctx context.Context, d directory, t *target, of string) (again *target, err error) {
	b.step("killing the service under load")
	loaded := make(chan error, 1)
	go func() {
		_, err := t.drive(ctx, load{connections: 64, duration: b.duration + patience}, creating(t))
		loaded <- err
	}()
	err = sleep(ctx, b.duration/2)
	_ = b.end(t, func(t *target) error { t.kill(); return nil })
	if <-loaded == nil && err == nil {
		err = errors.New("the service answered after it was killed")
	}
	if err != nil {
		return nil, err
	}
	again, took, err := b.startAgain(ctx, d, t)
	b.row("ready after kill -9 with "+of, "s", took, took.itself())
	return again, err
}

// startAgain serves the directory of a service that has ended, and returns how long it took to be ready.
func (b *bench) startAgain(ctx context.Context, d directory, ended *target) (again *target, took series, err error) {
	b.step("starting it again")
	start := time.Now()
	if again, err = b.serve(ctx, b.program, ended.name, d); err != nil {
		return nil, nil, err
	}
	again.acked = ended.acked
	c, err := again.dial(ctx, d.project, time.Now().Add(settleWait+patience))
	if err != nil {
		return nil, nil, err
	}
	defer c.close()
	err = until(ctx, "the service is ready", settleWait, func() (bool, error) {
		a, err := c.do("GET", "/readyz", 0, "")
		return a.status == 200, err
	})
	return again, series{time.Since(start).Seconds()}, err
}

// indebted kills the service while a fifth as many deliveries as it has payments wait for a
// receiver that is down, and starts it again.
func (b *bench) indebted(ctx context.Context, d directory, t *target, of string) error {
	down, err := freeports.Addresses("127.0.0.1", 1)
	if err != nil {
		return err
	}
	if err := t.endpoint(ctx, d.project, fmt.Sprintf(`{"url":"http://%s/"}`, down[0])); err != nil {
		return err
	}
	if err := b.end(t, (*target).stop); err != nil {
		return err
	}
	b.step("writing payments of which nobody can be notified")
	const each = 2 // the last of the payment and the last of its refund
	if err := fill(ctx, d.path, d.project.ID, b.payments/5/each); err != nil {
		return err
	}
	again, _, err := b.startAgain(ctx, d, t)
	if err != nil {
		return err
	}
	pending, err := again.metric(ctx, "payledger_webhook_deliveries_pending")
	if err != nil {
		return err
	}
	_ = b.end(again, func(t *target) error { t.kill(); return nil })
	_, took, err := b.startAgain(ctx, d, again)
	b.row(fmt.Sprintf("start with %s and %s deliveries pending", of, number(pending)), "s", took, took.itself())
	return err
}
