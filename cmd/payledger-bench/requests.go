package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// post measures creation in closed loops. A rate counts what was answered
// within the time. What the service was still to do for it afterwards, until the
// last payment was awaiting_payment, is measured too and its CPU time counts.
func (b *bench) post(ctx context.Context) error {
	names := []string{bare, ceiling, ceilingPlus}
	if b.postgres != "" {
		names = append(names, postgres)
	}
	entrants, err := b.entrants(ctx, creating, names...)
	if err != nil {
		return err
	}
	for _, n := range []int{1, 16, 64, 256} {
		m, err := b.measure(ctx, "POST, "+connections(n), load{connections: n}, entrants...)
		if err != nil {
			return err
		}
		own, names := m[0], names[:3]
		var rates, cores []against
		for i, name := range names {
			rates = append(rates, own.rate.over(name, m[i+1].rate))
			cores = append(cores, own.perCore.over(name, m[i+1].perCore))
		}
		b.row("POST, "+connections(n), "payments/s", own.rate, rates...)
		b.row("POST until awaiting_payment, "+connections(n), "payments/s", own.sustained, own.sustained.over("answered", own.rate))
		b.row("POST for each server core, "+connections(n), "payments/s", own.perCore, cores...)
		if b.postgres != "" {
			b.row("POST beside PostgreSQL, "+connections(n), "payments/s", own.rate, own.rate.over(postgres, m[4].rate))
		}
	}
	return nil
}

// read measures GET against the least that HTTP with a lookup costs, and repeats of idempotency
// keys against GET.
func (b *bench) read(ctx context.Context) error {
	entrants, err := b.entrants(ctx, getting, inMap, inBolt)
	if err != nil {
		return err
	}
	for _, e := range entrants {
		b.step("filling %s", e.name)
		if err := e.t.fillUp(ctx, b.some()); err != nil {
			return err
		}
	}
	entrants = append(entrants, entrant{"payledger, repeats of keys", entrants[0].t, repeating})
	m, err := b.measure(ctx, "GET, 64 connections", load{connections: 64}, entrants...)
	if err != nil {
		return err
	}
	own, repeat := m[0].rate, m[3].rate
	b.row("GET, 64 connections", "payments/s", own, own.over(inMap, m[1].rate), own.over(inBolt, m[2].rate))
	b.row("repeat of a key, 64 connections", "payments/s", repeat, repeat.over("GET", own))
	return nil
}

// openConnections is how many requests an open loop can have under way.
const openConnections = 256

// latency measures p99 at fixed rates.
func (b *bench) latency(ctx context.Context) error {
	entrants, err := b.entrants(ctx, creating, ceiling, ceilingPlus, inBolt)
	if err != nil {
		return err
	}
	for _, rate := range []int{1000, 4000} {
		what := fmt.Sprintf("POST at %d/s", rate)
		m, err := b.measure(ctx, what, load{connections: openConnections, rate: rate}, entrants[:3]...)
		if err != nil {
			return err
		}
		own := m[0].p99
		b.row(what+": p99", "ms", own, own.over(ceiling, m[1].p99), own.over(ceilingPlus, m[2].p99))
	}
	top, err := b.measure(ctx, "POST, 64 connections", load{connections: 64}, entrants[0])
	if err != nil {
		return err
	}
	return b.mixed(ctx, entrants[0].t, entrants[3].t, int(top[0].rate.median()/2))
}

// mixed measures GET without other load, and while payments are created at a rate, which is the
// same for the baseline.
func (b *bench) mixed(ctx context.Context, service, base *target, rate int) error {
	b.step("filling %s", base.name)
	if err := base.fillUp(ctx, b.some()); err != nil {
		return err
	}
	reading := load{connections: 64, rate: 1000}
	var alone, busy [2]measured
	for round := range b.rounds {
		for i, t := range []*target{service, base} {
			b.step("GET alone and while POST runs, round %d of %d: %s", round+1, b.rounds, t.name)
			if err := b.once(ctx, "GET alone", reading, entrant{t.name, t, getting}, &alone[i]); err != nil {
				return err
			}
			g, both := errgroup.WithContext(ctx)
			g.Go(func() error {
				_, err := t.drive(both, load{connections: openConnections, rate: max(rate, 1), duration: b.duration + b.duration/8}, creating(t))
				return err
			})
			g.Go(func() error { return b.once(both, "GET while POST", reading, entrant{t.name, t, getting}, &busy[i]) })
			if err := g.Wait(); err != nil {
				return err
			}
			if err := t.settle(ctx); err != nil {
				return err
			}
		}
	}
	own := busy[0].p99
	b.row("GET while POST runs at half its maximum: p99", "ms", own, own.over("GET alone", alone[0].p99), own.over(base.name, busy[1].p99))
	return nil
}

// life measures whole lives of payments, and refunds.
func (b *bench) life(ctx context.Context) error {
	service, err := b.service(ctx, b.program, "payledger")
	if err != nil {
		return err
	}
	m, err := b.measure(ctx, "whole life, 64 connections", load{connections: 64},
		entrant{"payledger", service, living}, entrant{"payledger, POST", service, creating})
	if err != nil {
		return err
	}
	lives, posts := m[0].rate, m[1].rate
	b.row("whole life, 64 connections", "payments/s", lives, lives.over("POST", posts))

	b.step("paying payments")
	before := len(service.acked)
	_, err = service.drive(ctx, load{connections: 64}, times(b.some(), func(c *client) error {
		_, err := c.createPaid()
		return err
	}))
	if err != nil {
		return err
	}
	paid := service.acked[before:]
	m, err = b.measure(ctx, "POST of a refund, 64 connections", load{connections: 64}, entrant{"payledger", service, func(*target) operation {
		now := paid[:b.some()/b.rounds]
		paid = paid[len(now):]
		return eachOf(now, func(c *client, p acked) error {
			_, err := c.refund(p)
			return err
		})
	}})
	if err != nil {
		return err
	}
	b.row("POST of a refund, 64 connections", "refunds/s", m[0].rate, m[0].rate.over("POST", posts))
	return nil
}

func living(*target) operation { return (*client).life }

// slowDisk measures payledger on a disk whose syncs take longer, against itself.
func (b *bench) slowDisk(ctx context.Context) error {
	fast, err := b.service(ctx, b.program, "payledger")
	if err != nil {
		return err
	}
	slow, err := b.service(ctx, b.program, "payledger with slow syncs", "--sync-delay", time.Millisecond.String())
	if err != nil {
		return err
	}
	m, err := b.measure(ctx, "POST, 256 connections", load{connections: 256}, entrant{"slow", slow, creating}, entrant{"fast", fast, creating})
	if err != nil {
		return err
	}
	own := m[0].rate
	b.row("POST on a slow disk, 256 connections", "payments/s", own, own.over("without", m[1].rate))
	return nil
}
