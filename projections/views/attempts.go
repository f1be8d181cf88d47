package views

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"payledger/domain"
	"payledger/projections/table"
)

// Hour is an hour of UTC, counted from 1970-01-01.
type Hour uint32

// HourOf is the hour of an instant.
func HourOf(at domain.Instant) Hour {
	return Hour(min(max(at, 0)/domain.Instant(time.Hour/time.Millisecond), math.MaxUint32-1))
}

// AttemptCounts count the attempts of a route by their outcome in a period. One that fails and is
// paid later is in Failed and in Paid.
type AttemptCounts struct {
	Begun  uint64
	Failed uint64 // without those abandoned before a customer saw them
	Paid   uint64
}

// Plus adds two counts.
func (a AttemptCounts) Plus(o AttemptCounts) AttemptCounts {
	return AttemptCounts{a.Begun + o.Begun, a.Failed + o.Failed, a.Paid + o.Paid}
}

// attemptsView counts attempts by hour: project, 0, the hour as 4 bytes, route. A row takes far
// less space than the payment that made it.
type attemptsView struct{ counters[AttemptCounts] }

func newAttemptsView(db *table.DB) *attemptsView {
	return &attemptsView{newCounters[AttemptCounts](db, "attempts")}
}

// count works out the row that an event of a payment leads to.
func (v *attemptsView) count(c *change) error {
	p := &c.paymentAfter.Payment
	var before []domain.Attempt
	if c.paymentBefore != nil {
		before = c.paymentBefore.Payment.Attempts
	}
	var now AttemptCounts
	for i, a := range p.Attempts {
		switch {
		case i >= len(before):
			now.Begun++
		case before[i].Status == a.Status:
		case a.Status == domain.AttemptFailed && a.Reason != domain.ReasonAbandoned:
			now.Failed++
		case a.Status == domain.AttemptCollected:
			now.Paid++
		}
	}
	if now == (AttemptCounts{}) {
		return nil
	}
	row, err := v.row(attemptsKey(p.Project, HourOf(domain.InstantOf(c.Record.At)), p.Route))
	if err == nil {
		*row = row.Plus(now)
	}
	return err
}

func attemptsKey(project string, h Hour, route string) string {
	b := binary.BigEndian.AppendUint32(append([]byte(project), 0), uint32(h))
	return string(append(b, route...))
}

// Attempts counts the attempts of a project's payments from an hour on, by route.
func (v *Views) Attempts(ctx context.Context, project string, from Hour) (map[string]AttemptCounts, error) {
	if err := v.fresh(ctx); err != nil {
		return nil, err
	}
	all := make(map[string]AttemptCounts)
	since := table.Range{Lo: attemptsKey(project, from, ""), Hi: attemptsKey(project, math.MaxUint32, "")}
	err := v.attempts.Each(ctx, since, math.MaxInt, func(key string, row *AttemptCounts) error {
		route := key[len(project)+5:]
		all[route] = all[route].Plus(*row)
		return nil
	})
	return all, err
}
