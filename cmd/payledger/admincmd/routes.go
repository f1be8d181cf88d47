package admincmd

import (
	"cmp"
	"net/http"
	"strconv"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/httpapi/wire"
)

// The commands on the routes of a running server.
type (
	RoutesList   struct{ console.Directory }
	RoutesReload struct{ console.Directory }
)

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
		case len(r.Rules) == 0:
			rows = append(rows, []string{r.Route, r.Type, "no rule"})
		}
	}
	return a.PrintTable("No routes.", []string{"ROUTE", "TYPE", "CURRENCY", "MIN", "MAX", "WEIGHT"}, rows)
}
