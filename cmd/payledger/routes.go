package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/routesfile"
	"payledger/httpapi/wire"
	"payledger/notifier/connector"
)

// routesCmd groups the commands on routes.
type routesCmd struct {
	Check  routesCheckCmd        `cmd:"" help:"Say what is wrong with a routes file, and what it does."`
	List   admincmd.RoutesList   `cmd:"" help:"List the routes of a running server."`
	Reload admincmd.RoutesReload `cmd:"" help:"Have a running server read its routes file again, as SIGHUP does."`
	Pause  admincmd.RoutesPause  `cmd:"" help:"Pause a route: no payment is given to it, and no attempt to pay begins there."`
	Resume admincmd.RoutesResume `cmd:"" help:"Resume a route that was paused."`
}

// Help is shown by --help.
func (routesCmd) Help() string {
	return `The routes file, --routes of "payledger serve", says which routes there are for whose
money, and which connector asks each route's provider for it:

  {
    "rules": [
      {"route": "cards", "currency": "RUB", "min": "1.00", "max": "50000.00", "weight": 3}
    ],
    "connectors": {
      "cards": {"type": "stripe", "api_key_file": "stripe.key"}
    }
  }

Of the rules that take a payment's currency and amount one is drawn by weight. Without
currency, min or max a rule takes them all; its weight is 1 unless given. A file that is only
the array of rules gives each route a connector of type nats.

Secrets are in separate files or in the environment: a member NAME_file is a file, relative
to the folder of the routes file, a member NAME_env the name of a variable.`
}

// routesCheckCmd checks a routes file.
type routesCheckCmd struct {
	File    string `arg:"" help:"The routes file."`
	Sandbox bool   `help:"It is for a server with --sandbox."`
}

// Help is shown by --help.
func (routesCheckCmd) Help() string {
	return `Reads the file as a server would, with the secrets that it names, and calls no provider.
Each problem is a line with file, line, column, the pointer of the member and what is
wanted. Without any it lists the routes and the amounts for which there is no rule.
Exit code 2: something is wrong.`
}

// checkedFile is the result of a check, as JSON.
type checkedFile struct {
	File     string               `json:"file"`
	Problems []routesfile.Problem `json:"problems"`
	Warnings []routesfile.Problem `json:"warnings"`
	Routes   []wire.Route         `json:"routes,omitzero"`
	NoRule   []routesfile.Gap     `json:"no_rule,omitzero"`
}

// Run checks the file and prints its rules and connectors.
func (c routesCheckCmd) Run(a *cli.App) error {
	source := routesfile.Source{File: c.File, Sandbox: c.Sandbox, Types: routesfile.Types()}
	l, err := source.Load(connector.Env{Now: time.Now})
	result := checkedFile{File: c.File, Problems: []routesfile.Problem{}, Warnings: append([]routesfile.Problem{}, l.Warnings...)}
	if err != nil {
		wrong, ok := err.(*routesfile.Error) //nolint:errorlint // Load wraps nothing
		if !ok {
			return cli.Errorf(cli.ExitUsage, "%w", err)
		}
		if result.Problems = wrong.Problems; a.JSON {
			if err := a.PrintJSON(result); err != nil {
				return err
			}
		}
		return cli.Errorf(cli.ExitUsage, "%w", err)
	}
	result.NoRule = routesfile.Gaps(l.Table)
	result.Routes = routesfile.List(l.Routes)
	if a.JSON {
		return a.PrintJSON(result)
	}
	for _, w := range l.Warnings {
		fmt.Fprintf(a.Stderr, "%s:%s\n", c.File, w)
	}
	return result.print(a)
}

// print writes the routes and the gaps as tables.
func (f checkedFile) print(a *cli.App) error {
	if err := admincmd.PrintRoutes(a, f.Routes); err != nil {
		return err
	}
	if len(f.NoRule) == 0 {
		_, err := fmt.Fprintln(a.Stdout, "\nThere is a rule for every payment.")
		return err
	}
	lines := make([]string, 0, len(f.NoRule))
	for _, g := range f.NoRule {
		lines = append(lines, fmt.Sprintf("  %s from %s to %s\n", cmp.Or(g.Currency, "other currencies"), g.Min, g.Max))
	}
	_, err := fmt.Fprintf(a.Stdout, "\nThere is no rule for these payments, which are refused with no_route:\n%s", strings.Join(lines, ""))
	return err
}
