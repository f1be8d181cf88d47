package service

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

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

// successRates are those of attempts by route.
func (a *app) successRates() map[string]float64 {
	rates := make(map[string]float64)
	for _, row := range a.connectors() {
		rates[row.Route] = math.NaN()
		if row.SuccessRate != nil {
			rates[row.Route] = *row.SuccessRate
		}
	}
	return rates
}
