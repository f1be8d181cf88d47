package service

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/domain"
	"payledger/httpapi/wire"
	"payledger/projections"
	"payledger/projections/views"
)

// attemptsLately are the attempts of all projects in the last 24 hours, counted by
// whole hours, by route.
func attemptsLately(ctx context.Context, all *projections.Engine) (map[string]views.AttemptCounts, error) {
	projects, err := all.Projects(ctx)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]views.AttemptCounts)
	from := views.HourOf(domain.InstantOf(time.Now().Add(-24 * time.Hour)))
	for _, p := range projects {
		of, err := all.Attempts(ctx, p.ID, from)
		if err != nil {
			return nil, err
		}
		for route, n := range of {
			counts[route] = counts[route].Plus(n)
		}
	}
	return counts, nil
}

// connectors say what the connectors of the routes do, by route. Where the
// projections do not answer in time, there are no attempts.
func (a *app) connectors() []wire.ConnectorStatus {
	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	lately, err := attemptsLately(ctx, a.views)
	backlogs := a.collector.Backlogs()
	names := make(map[string]bool)
	for route, opened := range a.routes.set.Routes().Connectors {
		names[route] = opened.Connector != nil
	}
	for route, backlog := range backlogs {
		names[route] = names[route] || backlog.Lost > 0 || len(backlog.Work) > 0
	}
	if err == nil {
		for route := range lately {
			names[route] = true
		}
	}
	rows := []wire.ConnectorStatus{}
	for _, route := range slices.Sorted(maps.Keys(names)) {
		if !names[route] {
			continue
		}
		n := lately[route]
		row := wire.ConnectorStatus{
			Route: route, RouteAttempts: wire.AttemptsOf(n.Begun, n.Paid, n.Failed), Open: backlogs[route].Work, Lost: backlogs[route].Lost,
			Paused: a.acts.paused(route),
		}
		if row.Open == nil {
			row.Open = make(map[domain.WorkKind]int)
		}
		rows = append(rows, row)
	}
	return rows
}

// successCollector is the success rate of attempts by route.
type successCollector struct {
	connectors func() []wire.ConnectorStatus
	desc       *prometheus.Desc
}

// watchConnectors registers the metric of the success rate.
func (a *app) watchConnectors() {
	a.metrics.MustRegister(successCollector{
		a.connectors,
		prometheus.NewDesc("payledger_attempts_success_ratio", "Paid ones of the attempts that ended in the last 24 hours; NaN when none did.", []string{"route"}, nil),
	})
}

// Describe implements prometheus.Collector.
func (c successCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c successCollector) Collect(to chan<- prometheus.Metric) {
	for _, row := range c.connectors() {
		rate := math.NaN()
		if row.SuccessRate != nil {
			rate = *row.SuccessRate
		}
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, rate, row.Route)
	}
}
