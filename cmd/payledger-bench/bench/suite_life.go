package bench

import (
	"context"
)

func stepsLife(b *bench) int { return 3*b.Rounds + 2 }

// life measures whole lives of payments, and refunds by themselves.
func (b *bench) life(ctx context.Context) error {
	const suite = "life"
	service, err := b.service(ctx, suite, b.SyncDelay)
	if err != nil {
		return err
	}
	m, err := b.measure(ctx, "whole life, 64 connections", load{Connections: 64}, []entrant{
		{"payledger", service, func() work { return life(&service.acks) }},
		{"payledger, POST", service, func() work { return create(&service.acks) }},
	})
	if err != nil {
		return err
	}
	lives, posts := m[0].rate, m[1].rate
	b.row(Row{
		Suite: suite, Name: "whole life, 64 connections", Unit: "payments/s", Figure: lives.median(), Note: "five events and four requests each; " + latencyNote(m[0]),
		Must: lives.atLeast(0.25, "POST", posts), Aim: lives.atLeast(0.40, "POST", posts),
	})

	b.step("paying payments")
	var paid book
	if err := each(ctx, service, 64, upTo(b.some(), pay(&paid))); err != nil {
		return err
	}
	pool := paid.all()
	m, err = b.measure(ctx, "POST of a refund, 64 connections", load{Connections: 64}, []entrant{{"payledger", service, func() work {
		share := min(b.some()/b.Rounds, len(pool)) // of a round
		now := pool[:share]
		pool = pool[share:]
		return refund(now)
	}}})
	if err != nil {
		return err
	}
	b.row(Row{
		Suite: suite, Name: "POST of a refund, 64 connections", Unit: "refunds/s", Figure: m[0].rate.median(), Note: latencyNote(m[0]),
		Beside: []Comparison{m[0].rate.beside("POST", posts)},
	})
	return b.checkAcks(ctx, service)
}
