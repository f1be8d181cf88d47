package admincmd

import (
	"cmp"
	"fmt"

	"payledger/cmd/payledger/cli"
	"payledger/httpapi/wire"
)

// The commands on the routes of a running server.
type (
	RoutesList   struct{ Served }
	RoutesReload struct{ Served }
	RoutesPause  struct {
		Served
		Route  string `arg:"" help:"Route to pause." json:"route"`
		Reason string `help:"Why, for other operators; customers and merchants do not see it." placeholder:"TEXT" json:"reason,omitzero"`
	}
	RoutesResume struct {
		Served
		Route string `arg:"" help:"Route to resume." json:"route"`
	}
)

// Help is shown by --help.
func (RoutesPause) Help() string {
	return `New payments get another route that takes them; those that none takes wait without a route
until this one is resumed, or expire. Payments that have the route keep it: their page says
that paying is paused, and begins no attempt. Attempts that are open, refunds and returns are
followed to their end.

A pause is an event of the log, so it outlasts restarts, and comes back with a restored log.
Paused again, a route keeps the time and gets the new reason. "routes list", "status" and
payledger_route_paused show it.`
}

// Run pauses the route and shows it.
func (c RoutesPause) Run(a *cli.App) error {
	return show(a, c, "POST /admin/routes/{route}/pause", func(r wire.Route) error {
		return a.Print(r, "%s\n", pauseOf(r))
	})
}

// Help is shown by --help.
func (RoutesResume) Help() string {
	return `Payments that wait for a route get theirs at once. A route that is not paused stays as it is.`
}

// Run resumes the route and shows it.
func (c RoutesResume) Run(a *cli.App) error {
	return show(a, c, "POST /admin/routes/{route}/resume", func(r wire.Route) error {
		return a.Print(r, "Route %s is not paused.\n", r.Route)
	})
}

// pauseOf is a sentence on a route that is paused.
func pauseOf(r wire.Route) string {
	s := fmt.Sprintf("Route %s is paused since %s", r.Route, r.Paused.Since)
	if r.Paused.Reason != "" {
		return s + ": " + r.Paused.Reason
	}
	return s + "."
}

// Run lists the routes.
func (c RoutesList) Run(a *cli.App) error { return listRoutes(a, c, "GET /admin/routes") }

// Run has the routes file read again and lists the routes.
func (c RoutesReload) Run(a *cli.App) error { return listRoutes(a, c, "POST /admin/routes/reload") }

func listRoutes(a *cli.App, c command, line string) error {
	return list(a, c, line, func(all []wire.Route) error { return PrintRoutes(a, all) })
}

// PrintRoutes prints a row for each rule, and one for a route without any.
func PrintRoutes(a *cli.App, routes []wire.Route) error {
	var rows [][]string
	for _, r := range routes {
		for _, rule := range r.Rules {
			rows = append(rows, texts(r.Route, r.Type, cmp.Or(string(rule.Currency), "every"), rule.Min, rule.Max, rule.Weight))
		}
		switch {
		case r.Retired:
			rows = append(rows, texts(r.Route, r.Type, "retired"))
		case r.Type == "":
			rows = append(rows, texts(r.Route, "-", "not in the routes file"))
		case len(r.Rules) == 0:
			rows = append(rows, texts(r.Route, r.Type, "no rule"))
		}
	}
	if err := a.PrintTable("No routes.", []string{"ROUTE", "TYPE", "CURRENCY", "MIN", "MAX", "WEIGHT"}, rows); err != nil {
		return err
	}
	for _, r := range routes {
		if r.Paused != nil {
			fmt.Fprintln(a.Stdout, pauseOf(r))
		}
	}
	return nil
}
