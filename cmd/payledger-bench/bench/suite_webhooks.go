package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger-bench/baseline"
)

// maxMerchants is how many there are, each with an endpoint of its own: what
// one endpoint is sent is limited, so that no merchant is overrun.
const maxMerchants = 64

// merchants is fewer for runs that are too short to mean anything.
func (b *bench) merchants() int {
	return min(maxMerchants, max(2, int(b.Duration/(20*time.Millisecond))))
}

func stepsWebhooks(b *bench) int { return 2*b.Rounds + 4 }

// webhooks measures signed notifications to a sink on loopback, and what is
// left of the rate of POST meanwhile.
func (b *bench) webhooks(ctx context.Context) error {
	merchants := b.merchants()
	sink, err := b.baseline(ctx, baseline.Sink)
	if err != nil {
		return err
	}
	b.step("registering %d merchants, without endpoints", merchants)
	silent, err := b.shops(ctx, "silent", "")
	if err != nil {
		return err
	}
	b.step("registering %d merchants, with endpoints", merchants)
	notified, err := b.shops(ctx, "notified", sink.BaseURL)
	if err != nil {
		return err
	}
	entrants := []entrant{
		{"payledger", notified, func() work { return trade(notified) }},
		{"payledger, no endpoints", silent, func() work { return trade(silent) }},
	}
	what := "POST of merchants with webhooks, " + closed(merchants)
	posts := make([]measured, len(entrants))
	var delivered, cost series
	for round := range b.Rounds {
		before, err := sink.count(ctx)
		if err != nil {
			return err
		}
		start, cpu := time.Now(), notified.cpu()
		b.step("%s, round %d: with endpoints", what, round+1)
		if err := b.one(ctx, what, round, load{Connections: merchants}, entrants[0], &posts[0]); err != nil {
			return err
		}
		after, last, err := b.delivered(ctx, notified, sink)
		if err != nil {
			return err
		}
		if after == before {
			return errors.New("the sink got no notification")
		}
		delivered = append(delivered, per(float64(after-before), last.Sub(start).Seconds()))
		used := (notified.cpu() - cpu).Seconds()
		b.step("%s, round %d: without endpoints", what, round+1)
		if err := b.one(ctx, what, round, load{Connections: merchants}, entrants[1], &posts[1]); err != nil {
			return err
		}
		used -= per(float64(posts[0].outcomes[round].All), posts[1].perCore[round])
		cost = append(cost, per(used*1e6, float64(after-before)))
	}
	m := delivered.median()
	b.row(Row{
		Suite: "webhooks", Name: "webhook deliveries", Unit: "deliveries/s", Figure: m,
		Must: figureAtLeast(4000, m), Aim: figureAtLeast(15_000, m),
		Note: fmt.Sprintf("to %d endpoints, from the first POST of a run to the last delivery; %.0f µs of the service's CPU each, beyond what POST takes without",
			merchants, cost.median()),
	})
	own, base := posts[0].rate, posts[1].rate
	b.row(Row{
		Suite: "webhooks", Name: what, Unit: "payments/s", Figure: own.median(), Note: latencyNote(posts[0]),
		Must: own.atLeast(0.70, "without", base), Aim: own.atLeast(0.85, "without", base),
	})
	b.step("reading again what was acknowledged")
	for _, t := range append(silent.merchants, notified.merchants...) {
		n, err := t.verify(ctx)
		b.report.Checked += n
		if err != nil {
			return err
		}
	}
	return nil
}

// shops serves a directory with many merchants. Each gets an endpoint at the
// URL, unless that is empty.
func (b *bench) shops(ctx context.Context, name, url string) (*target, error) {
	d, err := b.newDirectory(ctx, name)
	if err != nil {
		return nil, err
	}
	t, err := b.serve(ctx, d, b.SyncDelay, "--webhook-allow-private")
	if err != nil {
		return nil, err
	}
	for i := range b.merchants() {
		made, err := b.newProject(ctx, d.path, fmt.Sprintf("Merchant %d", i))
		if err != nil {
			return nil, err
		}
		m := &target{name: t.name, addr: t.addr, pid: t.pid, Project: made.Project, Key: made.Key}
		t.merchants = append(t.merchants, m)
		if url == "" {
			continue
		}
		body, err := json.Marshal(map[string]any{
			"url": url + "/" + strconv.Itoa(i), "kinds": []string{"payment.created", "payment.awaiting_payment"},
		})
		if err != nil {
			return nil, err
		}
		a, err := m.ask(ctx, m.request("POST", "/v1/webhook-endpoints", "", string(body)))
		if err != nil {
			return nil, err
		}
		if a.status != 201 {
			return nil, refuse("adding a webhook endpoint", a)
		}
	}
	return t, nil
}

// trade creates payments of all merchants, each over a connection of its own.
func trade(t *target) work {
	var next atomic.Int64
	return func(_ *target, c *client) func() error {
		m := t.merchants[int(next.Add(1))%len(t.merchants)]
		return create(&m.acks)(m, c)
	}
}

// ask makes one request over a connection of its own.
func (t *target) ask(ctx context.Context, request []byte) (answer, error) {
	clients, err := t.dialAll(ctx, 1)
	if err != nil {
		return answer{}, err
	}
	c := clients[0]
	defer c.close()
	if err := c.within(patience); err != nil {
		return answer{}, err
	}
	return c.do(request)
}

// count is how many notifications a sink has got.
func (t *target) count(ctx context.Context) (int, error) {
	a, err := t.ask(ctx, t.request("GET", "/count", "", ""))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(bytes.TrimSpace(a.body)))
}

// delivered waits until a service has nothing left to notify of. It answers
// how many notifications the sink has got, and when the last of them was seen.
func (b *bench) delivered(ctx context.Context, t, sink *target) (n int, last time.Time, err error) {
	last = time.Now()
	for end := last.Add(settleWait); ; {
		now, err := sink.count(ctx)
		if err != nil {
			return n, last, err
		}
		if now != n {
			n, last = now, time.Now()
		}
		ahead, err := t.metric(ctx, "payledger_fanout_lag_events")
		if err != nil {
			return n, last, err
		}
		pending, err := t.metric(ctx, "payledger_webhook_deliveries_pending")
		switch {
		case err != nil:
			return n, last, err
		case ahead == 0 && pending == 0 && time.Since(last) > quiet:
			return n, last, nil
		case time.Now().After(end):
			return n, last, fmt.Errorf("%s: %v notifications are still pending %v after the load", t.name, pending, settleWait)
		}
		if err := sleep(ctx, relayLook); err != nil {
			return n, last, err
		}
	}
}

// quiet is how long nothing comes once everything has come.
const quiet = 300 * time.Millisecond
