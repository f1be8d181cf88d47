package bench

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// openConnections is how many requests an open loop can have under way.
const openConnections = 256

// getRate is that of the GETs whose latency is looked at while payments come.
const getRate = 1000

func openRates() []int { return []int{1000, 4000} }

func stepsLatency(b *bench) int { return b.Rounds*(3*len(openRates())+3) + 3 }

// latency measures at fixed rates.
func (b *bench) latency(ctx context.Context) error {
	const suite = "latency"
	service, err := b.service(ctx, suite, b.SyncDelay)
	if err != nil {
		return err
	}
	beside, err := b.baselines(ctx, ceiling, ceiling2, inBolt)
	if err != nil {
		return err
	}
	for _, rate := range openRates() {
		what := fmt.Sprintf("POST at %d/s", rate)
		m, err := b.measure(ctx, what, load{Connections: openConnections, Rate: rate}, creators(service, beside[0], beside[1]))
		if err != nil {
			return err
		}
		own, base := m[0].p99, m[1].p99
		b.row(Row{
			Suite: suite, Name: what + ": p99", Unit: "ms", Figure: own.median(), Note: latencyNote(m[0]),
			Must: own.atMost(2, ceiling, base), Aim: own.atMost(1.2, ceiling, base),
			Beside: []Comparison{own.beside(ceiling2, m[2].p99)},
		})
	}
	top, err := b.measure(ctx, "POST, 64 connections", load{Connections: 64}, creators(service))
	if err != nil {
		return err
	}
	return b.mixed(ctx, service, beside[2], int(top[0].rate.median()/2))
}

// mixed measures GET alone, and while payments come at a rate, which is the same
// for a baseline.
func (b *bench) mixed(ctx context.Context, service, base *target, rate int) error {
	b.step("filling %s", base.name)
	if err := base.fill(ctx, b.some()); err != nil {
		return err
	}
	var alone, busy [2]measured
	for round := range b.Rounds {
		for i, t := range []*target{service, base} {
			b.step("GET alone and while POST runs at half its maximum, %s, round %d", t.name, round+1)
			if err := b.besides(ctx, t, round, rate, &alone[i], &busy[i]); err != nil {
				return err
			}
		}
	}
	own := busy[0].p99
	b.row(Row{
		Suite: "latency", Name: "GET while POST runs at half its maximum: p99", Unit: "ms", Figure: own.median(),
		Note: fmt.Sprintf("GET at %d/s, POST at %d/s; %s alone %.3g ms", getRate, rate, base.name, alone[1].p99.median()),
		Must: own.atMost(3, "GET alone", alone[0].p99), Aim: own.atMost(1.5, "GET alone", alone[0].p99),
		Beside: []Comparison{own.beside(base.name, busy[1].p99)},
	})
	return b.checkAcks(ctx, service)
}

// besides measures GET alone, and then while payments come at a rate.
func (b *bench) besides(ctx context.Context, t *target, round, rate int, alone, busy *measured) error {
	reading := load{Connections: readers, Rate: getRate, ReadOnly: true}
	reader := getters(t)[0]
	if err := b.one(ctx, "GET alone", round, reading, reader, alone); err != nil {
		return err
	}
	read := reader.work()
	g, both := errgroup.WithContext(ctx)
	g.Go(func() error {
		_, err := drive(both, t, load{
			Connections: openConnections, Rate: max(rate, 1), Warm: b.Duration / 8, Duration: b.Duration,
		}, create(&t.acks))
		return err
	})
	g.Go(func() error {
		return b.one(both, "GET while POST", round, reading, entrant{t.name, t, func() work { return read }}, busy)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	return t.settled(ctx)
}
