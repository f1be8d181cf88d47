package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"
)

// merchants is their number, each with one endpoint: the rate of one endpoint is limited. There are
// fewer for runs that are too short to mean anything.
func (b *bench) merchants() int { return min(64, max(4, int(b.duration/(20*time.Millisecond)))) }

// webhooks measures signed notifications to a receiver on loopback, and the rate of POST meanwhile.
func (b *bench) webhooks(ctx context.Context) error {
	sink, err := b.baseline(ctx, "sink")
	if err != nil {
		return err
	}
	notified, err := b.shops(ctx, b.program, "payledger", func(i int) string { return fmt.Sprintf("http://%s/%d", sink.addr, i) })
	if err != nil {
		return err
	}
	silent, err := b.shops(ctx, b.program, "payledger without endpoints", func(int) string { return "" })
	if err != nil {
		return err
	}
	what := "POST of merchants with webhooks, " + connections(b.merchants())
	l := load{connections: b.merchants()}
	var with, without measured
	var delivered series
	for round := range b.rounds {
		b.step("%s, round %d of %d", what, round+1, b.rounds)
		rate, err := b.deliver(ctx, what, l, notified, sink, &with)
		if err != nil {
			return err
		}
		delivered = append(delivered, rate)
		if err := b.once(ctx, what, l, entrant{silent.name, silent, creating}, &without); err != nil {
			return err
		}
	}
	b.row("webhook deliveries", "deliveries/s", delivered, delivered.itself())
	b.row(what, "payments/s", with.rate, with.rate.over("without", without.rate))
	return nil
}

// shops starts a payledger with many merchants. Each gets an endpoint at the
// URL, unless that is empty.
func (b *bench) shops(ctx context.Context, program, name string, url func(int) string) (*target, error) {
	b.step("registering %d merchants: %s", b.merchants(), name)
	t, err := b.service(ctx, program, name)
	if err != nil {
		return nil, err
	}
	t.projects = nil
	for i := range b.merchants() {
		p, err := newProject(ctx, program, t.data)
		if err != nil {
			return nil, err
		}
		t.projects = append(t.projects, p)
		if url(i) == "" {
			continue
		}
		err = t.endpoint(ctx, p, fmt.Sprintf(`{"url":%q,"kinds":["payment.created","payment.awaiting_payment"]}`, url(i)))
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

// endpoint makes a webhook endpoint of a project.
func (t *target) endpoint(ctx context.Context, p project, body string) error {
	c, err := t.dial(ctx, p, time.Now().Add(patience))
	if err != nil {
		return err
	}
	defer c.close()
	_, _, err = c.ask(201, "POST", "/v1/webhook-endpoints", 0, body)
	return err
}

// deliver creates payments for a time and waits until nothing is left to
// notify of. It returns the rate of deliveries, from the first POST to the last
// delivery.
func (b *bench) deliver(ctx context.Context, what string, l load, t, sink *target, m *measured) (perSecond float64, err error) {
	before, err := sink.number(ctx, "/count")
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := b.once(ctx, what, l, entrant{t.name, t, creating}, m); err != nil {
		return 0, err
	}
	after, last := before, start
	err = until(ctx, t.name+" notifies of everything", settleWait, func() (bool, error) {
		now, err := sink.number(ctx, "/count")
		if err != nil {
			return false, err
		}
		if now != after {
			after, last = now, time.Now()
		}
		pending, err := t.metric(ctx, "payledger_webhook_deliveries_pending")
		if err != nil {
			return false, err
		}
		const quiet = 300 * time.Millisecond // nothing comes for so long once everything has come
		if after == before || pending > 0 || time.Since(last) < quiet {
			return false, sleep(ctx, 20*time.Millisecond)
		}
		return true, nil
	})
	return (after - before) / last.Sub(start).Seconds(), err
}

// number asks a target for a number.
func (t *target) number(ctx context.Context, path string) (float64, error) {
	c, err := t.dial(ctx, t.projects[0], time.Now().Add(patience))
	if err != nil {
		return 0, err
	}
	defer c.close()
	_, a, err := c.ask(200, "GET", path, 0, "")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(a.body), 64)
}

// blackHoles measures how long a notification takes to a receiver that answers
// while half of all receivers take a request and never answer. The time is from
// the moment at which the payment was sent to the notification's arrival.
func (b *bench) blackHoles(ctx context.Context) error {
	hole, err := net.Listen("tcp", "127.0.0.1:0") // accepted by the system and never read
	if err != nil {
		return err
	}
	defer hole.Close()
	type half struct {
		shops, sink *target
		p99         series
	}
	var halves [2]half
	for i, silent := range []string{"", "http://" + hole.Addr().String()} {
		h := &halves[i]
		if h.sink, err = b.baseline(ctx, "sink"); err != nil {
			return err
		}
		name := "payledger"
		if silent != "" {
			name = "payledger beside silent receivers"
		}
		h.shops, err = b.shops(ctx, b.program, name, func(merchant int) string {
			if merchant%2 == 0 {
				return fmt.Sprintf("http://%s/%d", h.sink.addr, merchant)
			}
			return silent
		})
		if err != nil {
			return err
		}
	}
	// Usually ten seconds: the 99th percentile of some 1,000 notifications.
	l := load{connections: b.merchants(), rate: 200, duration: 5 * b.duration}
	for round := range b.rounds {
		for i := range halves {
			h := &halves[i]
			b.step("notifications, round %d of %d: %s", round+1, b.rounds, h.shops.name)
			before, err := h.sink.number(ctx, "/count")
			if err != nil {
				return err
			}
			if _, err := h.shops.drive(ctx, l, creatingWithTime); err != nil {
				return err
			}
			if err := until(ctx, h.shops.name+" notifies of something", settleWait, func() (bool, error) {
				now, err := h.sink.number(ctx, "/count")
				return now > before, err
			}); err != nil {
				return err
			}
			if err := sleep(ctx, 200*time.Millisecond); err != nil { // the last ones are on their way
				return err
			}
			p99, err := h.sink.number(ctx, "/p99")
			if err != nil {
				return err
			}
			h.p99 = append(h.p99, p99)
		}
	}
	own := halves[1].p99
	b.row("notification beside silent receivers: p99", "ms", own, own.over("without", halves[0].p99))
	return nil
}

// creatingWithTime creates payments whose notification says when they were sent.
func creatingWithTime(c *client) error {
	_, err := c.createWith(fmt.Sprintf(`{"amount":"1500.00","payload":{"sent":%d}}`, time.Now().UnixNano()))
	return err
}
