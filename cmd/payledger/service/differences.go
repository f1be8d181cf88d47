package service

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// reportDays is how many days a report may take, as in reconcile.
const reportDays = 3

// differences folds what is open between outcomes and the reports of some routes.
type differences struct {
	ledger eventstore.Ledger
	routes []string // those that have a report
	since  map[string]domain.Instant
	open   *settlement.Open
	at     eventstore.Position // up to which it is folded
}

// watchDifferences keeps the age of the oldest difference, until ctx ends. A route without a report
// is not compared with any, and without any route the log is not read.
func (a *app) watchDifferences(ctx context.Context, m prometheus.Registerer) error {
	age := promauto.With(m).NewGauge(prometheus.GaugeOpts{
		Name: "payledger_settlement_oldest_difference_seconds",
		Help: "Age of the oldest difference between outcomes and settlement reports, of routes that have a report, as reconcile lists them; 0 without any. Looked for once a minute.",
	})
	d := differences{ledger: a.ledger, open: settlement.NewOpen(nil)}
	for more := true; more; more = health.Pause(ctx, time.Minute) {
		if err := d.fold(ctx, a.routes.set.Names(), a.acts.now().SettledSince); err != nil {
			if ctx.Err() == nil {
				a.Log.Error().Err(err).Msg("differences between outcomes and settlement reports cannot be looked for")
			}
			continue
		}
		now := domain.InstantOf(time.Now())
		age.Set(float64(now-d.open.Oldest(now, reportDays)) / 1000)
	}
	return nil
}

// fold brings the differences up to the log, with at most half a processor's time. since is from when
// on reports are to have the outcomes of a route.
func (d *differences) fold(ctx context.Context, routes []string, since map[string]domain.Instant) error {
	var reported []string
	for _, route := range routes {
		for _, err := range d.ledger.Store.Load(ctx, eventstore.ReportsStream(route)) {
			if err != nil {
				return err
			}
			reported = append(reported, route)
			break
		}
	}
	if len(reported) == 0 {
		d.routes, d.open, d.at = nil, settlement.NewOpen(nil), 0
		return nil
	}
	if !slices.Equal(reported, d.routes) || !maps.Equal(since, d.since) {
		d.routes, d.since, d.open, d.at = reported, since, settlement.NewOpen(since, reported...), 0
	}
	worked := time.Now()
	for r, err := range d.ledger.Store.Scan(ctx, d.at, eventstore.Filter{}) {
		if err != nil {
			return err
		}
		switch r.Stream.Kind {
		case eventstore.KindPayment, eventstore.KindSettlement, eventstore.KindPayouts:
			e, err := d.ledger.Codec.Event(r)
			if err != nil {
				return err
			}
			d.open.Fold(r.Stream.Project, r.Stream.ID, domain.InstantOf(r.At), e)
		}
		if d.at = r.Position; d.at%1024 == 0 {
			health.Pause(ctx, time.Since(worked))
			worked = time.Now()
		}
	}
	return nil
}
