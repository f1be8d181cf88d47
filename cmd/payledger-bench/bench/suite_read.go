package bench

import (
	"context"
	"slices"
	"time"
)

const readers = 64

func stepsRead(b *bench) int { return b.Rounds*4 + 4 }

// read measures GET against what the least of HTTP with a lookup costs, and
// repeats of idempotency keys against GET.
func (b *bench) read(ctx context.Context) error {
	service, err := b.service(ctx, "read", b.SyncDelay)
	if err != nil {
		return err
	}
	targets, err := b.baselines(ctx, inMap, inBolt)
	if err != nil {
		return err
	}
	targets = slices.Insert(targets, 0, service)
	payments := b.some()
	for _, t := range targets {
		b.step("filling %s", t.name)
		if err := t.fill(ctx, payments); err != nil {
			return err
		}
	}
	what := "GET, 64 connections"
	entrants := append(getters(targets...), entrant{"payledger, repeats of keys", service, func() work { return replay(service.acks.all()) }})
	m, err := b.measure(ctx, what, load{Connections: readers, ReadOnly: true}, entrants)
	if err != nil {
		return err
	}
	own := m[0].rate
	b.row(Row{
		Suite: "read", Name: what, Unit: "payments/s", Figure: own.median(), Note: latencyNote(m[0]),
		Must: own.atLeast(0.75, inMap, m[1].rate), Aim: own.atLeast(0.95, inMap, m[1].rate),
		Beside: []Comparison{own.beside(inBolt, m[2].rate)},
	})
	r := m[3].rate
	b.row(Row{
		Suite: "read", Name: "repeat of a key, 64 connections", Unit: "payments/s", Figure: r.median(), Note: latencyNote(m[3]),
		Must: r.atLeast(0.70, "GET", own), Aim: r.atLeast(0.90, "GET", own),
	})
	return b.checkAcks(ctx, service)
}

// some is how many payments a short suite begins with.
func (b *bench) some() int {
	return int(min(max(10_000*b.Duration/time.Second, 100), 20_000))
}

// fill creates payments and waits until they are routed.
func (t *target) fill(ctx context.Context, n int) error {
	if err := each(ctx, t, readers, upTo(n, create(&t.acks))); err != nil {
		return err
	}
	return t.settled(ctx)
}
