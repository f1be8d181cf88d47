package admincmd

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/httpapi/wire"
)

// The commands on the routes of a running server.
type (
	RoutesList   struct{ console.Directory }
	RoutesReload struct{ console.Directory }
	RoutesPause  struct {
		console.Directory
		Route  string `arg:"" help:"Route to pause."`
		Reason string `help:"Why, for other operators; customers and merchants do not see it." placeholder:"TEXT"`
	}
	RoutesResume struct {
		console.Directory
		Route string `arg:"" help:"Route to resume."`
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
func (c RoutesPause) Run(a *console.App) error {
	return onServer(a, c.Directory, func(m *adminclient.Client) error {
		body := struct {
			Reason string `json:"reason,omitempty"`
		}{c.Reason}
		var r wire.Route
		if err := m.Call(a.Ctx, http.MethodPost, "/admin/routes/"+url.PathEscape(c.Route)+"/pause", body, &r); err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(r)
		}
		_, err := fmt.Fprintln(a.Stdout, pauseOf(r))
		return err
	})
}

// Help is shown by --help.
func (RoutesResume) Help() string {
	return `Payments that wait for a route get theirs at once. A route that is not paused stays as it is.`
}

// Run resumes the route and shows it.
func (c RoutesResume) Run(a *console.App) error {
	return onServer(a, c.Directory, func(m *adminclient.Client) error {
		var r wire.Route
		if err := m.Call(a.Ctx, http.MethodPost, "/admin/routes/"+url.PathEscape(c.Route)+"/resume", nil, &r); err != nil {
			return err
		}
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
func (c RoutesList) Run(a *console.App) error {
	return callRoutes(a, c.Directory, http.MethodGet, "/admin/routes")
}

// Run has the routes file read again and lists the routes.
func (c RoutesReload) Run(a *console.App) error {
	return callRoutes(a, c.Directory, http.MethodPost, "/admin/routes/reload")
}

func callRoutes(a *console.App, c console.Directory, method, path string) error {
	return onServer(a, c, func(m *adminclient.Client) error {
		var page wire.Page[wire.Route]
		if err := m.Call(a.Ctx, method, path, nil, &page); err != nil {
			return err
		}
		if !a.JSON {
			return PrintRoutes(a, page.Data)
		}
		for _, r := range page.Data {
			if err := a.PrintJSON(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// PrintRoutes prints a row for each rule, and one for a route without any.
func PrintRoutes(a *console.App, routes []wire.Route) error {
	var rows [][]string
	for _, r := range routes {
		for _, rule := range r.Rules {
			rows = append(rows, []string{
				r.Route, r.Type, cmp.Or(string(rule.Currency), "every"), rule.Min.String(), rule.Max.String(), strconv.FormatUint(uint64(rule.Weight), 10),
			})
		}
		switch {
		case r.Retired:
			rows = append(rows, []string{r.Route, r.Type, "retired"})
		case r.Type == "":
			rows = append(rows, []string{r.Route, "-", "not in the routes file"})
		case len(r.Rules) == 0:
			rows = append(rows, []string{r.Route, r.Type, "no rule"})
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
