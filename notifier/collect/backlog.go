package collect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"payledger/domain"
)

// Backlog is what is open at one route's provider.
type Backlog struct {
	Work map[domain.WorkKind]int
	Lost int // payments that are not followed, because the route has no connector
}

// count adds what is open about one payment.
func (b Backlog) count(o domain.Outstanding, now domain.Instant) {
	add := func(kind domain.WorkKind, n int) {
		if n > 0 {
			b.Work[kind] += n
		}
	}
	add(domain.WorkRefund, o.Refunds)
	add(domain.WorkReturn, o.Returns)
	add(domain.WorkDispute, o.Disputes)
	switch {
	case o.CancelAt == 0:
	case now < o.CancelAt:
		add(domain.WorkAttempt, 1)
	default:
		add(domain.WorkCancel, 1)
	}
}

// Backlogs are what is open at the providers by route, as it was a minute ago at
// most. The maps must not be changed.
func (c *Collector) Backlogs() map[string]Backlog { return *c.backlogs.Load() }

// Degraded says which payments are not followed.
func (c *Collector) Degraded() []string {
	var all []string
	backlogs := c.Backlogs()
	for _, route := range slices.Sorted(maps.Keys(backlogs)) {
		if n := backlogs[route].Lost; n > 0 {
			all = append(all, lostSentence(route, n))
		}
	}
	return all
}

func lostSentence(route string, payments int) string {
	return fmt.Sprintf("The route %s has no connector any more, and payments (%d) are open at its provider, which are not polled. "+
		"Put its connector back into the routes file and run \"payledger routes reload\"; \"payledger payments open --route %[1]s\" lists them.", route, payments)
}

// scan loads the payments of the view that are not in memory, and counts what is open by route,
// also what does not fit. The payments of routes without a connector are left: they are for
// programs elsewhere. It reads only the view's rows, 10 ms for 10,000 of them: see
// BenchmarkUncollected of package projections.
func (c *Collector) scan(ctx context.Context) error {
	found := make(map[string]Backlog)
	known := c.config.Routes.Routes().Connectors
	for route := range known {
		found[route] = Backlog{Work: make(map[domain.WorkKind]int)}
	}
	now := domain.InstantOf(c.config.Now())
	var after domain.ID
	for n := scanBatch; n == scanBatch; {
		n = 0
		err := c.config.Views.EachUncollected(ctx, after, scanBatch, func(o domain.Outstanding, id domain.ID) error {
			n++
			after = id
			_, asked := c.config.Routes.Connector(o.Route)
			if asked && !c.tasks.has(id) {
				c.tasks.dueNow(id)
			}
			b, ok := found[o.Route]
			if !ok {
				b.Work = make(map[domain.WorkKind]int)
			}
			b.count(o, now)
			// A program elsewhere may signal the end of refunds, but not that of attempts.
			if _, configured := known[o.Route]; !asked && (o.CancelAt != 0 || !configured) {
				b.Lost++
			}
			found[o.Route] = b
			return nil
		})
		if err != nil {
			return err
		}
	}
	before := *c.backlogs.Swap(&found)
	for route := range before {
		if _, ok := found[route]; !ok {
			c.metrics.showBacklog(route, Backlog{})
		}
	}
	for route, b := range found {
		c.metrics.showBacklog(route, b)
		if b.Lost > 0 && before[route].Lost == 0 {
			c.config.Log.Error().Str("route", route).Msg(lostSentence(route, b.Lost))
		}
	}
	return nil
}

// noConnector is the error of a payment that is open on a route without one.
const noConnector = "no connector asks this route's provider: the end has to come as a signal; an attempt ends only once the routes file has its connector again"

// Looks is how an uncollected payment is followed.
func (c *Collector) Looks(p domain.Payment) domain.Looks {
	if _, ok := c.config.Routes.Connector(p.Route); !ok {
		return domain.Looks{LastError: noConnector}
	}
	c.tasks.mu.Lock()
	defer c.tasks.mu.Unlock()
	t := c.tasks.byID[p.ID]
	if t == nil || t.due.IsZero() {
		return domain.Looks{}
	}
	next := domain.InstantOf(t.due)
	return domain.Looks{Tries: t.tries, LastError: t.lastError, NextTry: &next}
}

// maxLookError is the longest text of an error, in bytes.
const maxLookError = 300

// tried notes the end of a try: see rest. The end of an attempt is no error. The caller holds the task.
func (t *task) tried(err error) {
	t.polled = t.all.now()
	if ended(err) {
		err = nil
	}
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	t.tries++
	t.lastError = ""
	if err != nil {
		text := strings.ReplaceAll(err.Error(), "\n", "; ")
		t.lastError = strings.ToValidUTF8(text[:min(len(text), maxLookError)], "")
	}
}
