package admincmd

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/httpapi/wire"
)

// Status shows whether a server runs on a directory, and how it is.
type Status struct{ Directory }

// Help is shown by --help.
func (Status) Help() string {
	return `Exit code 0: a server runs and records payments; 1: none runs, or it records nothing.
A stopped directory is not opened. A node of a cluster answers for itself: its disk, address,
version and routes; what waits, and what connectors do is the leader's.`
}

// Run shows the status.
func (c Status) Run(a *cli.App) error {
	m, err := c.Running(a)
	if err != nil {
		return err
	}
	if m == nil {
		if a.JSON {
			err = a.PrintJSON(map[string]any{"running": false, "data": c.Data})
		}
		return errors.Join(err, fmt.Errorf("no server runs on %s", c.Data))
	}
	answer := struct {
		Running bool   `json:"running"`
		Data    string `json:"data"`
		wire.Status
	}{Running: true, Data: c.Data}
	if err := c.status(a, m, &answer.Status); err != nil {
		return err
	}
	s := answer.Status
	state := "records payments"
	switch {
	case !s.Ready:
		state = "records nothing"
	case len(s.Trouble) > 0:
		state = "records payments, but not all is well"
	}
	rows := [][2]string{{"State", state}}
	for _, t := range s.Trouble {
		rows = append(rows, [2]string{"Trouble", t})
	}
	limits := make([]string, len(s.Limits)) // of projects without limits
	for i, l := range s.Limits {
		limits[i] = fmt.Sprintf("%s %d", l.Name, l.Value)
	}
	rows = append(
		rows,
		[2]string{"Version", fmt.Sprintf("%s (revision %s)", s.Version, s.Revision)},
		[2]string{"Running", "since " + s.StartedAt.String()},
		[2]string{"Address", s.BaseURL},
		[2]string{"Log", "position " + strconv.FormatUint(s.Position, 10)},
		[2]string{"Limits", strings.Join(limits, ", ") + "; a project may have its own"},
		[2]string{"Routes", cli.Count(s.RoutingRules, "rule")},
	)
	for _, c := range s.Connectors {
		rows = append(rows, [2]string{"Connector", connectorLine(c)})
	}
	rows = append(
		rows,
		[2]string{"Webhooks", fmt.Sprintf("%s queued, %d undelivered", cli.Count(s.NotificationsPending, "notification"), s.NotificationsUndelivered)},
		[2]string{"Disk", fmt.Sprintf("%d MiB free, %d MiB needed", s.DiskFreeBytes>>20, s.DiskFreeMinBytes>>20)},
	)
	if a.JSON {
		err = a.PrintJSON(answer)
	} else {
		err = a.PrintRows(rows)
	}
	if err == nil && !s.Ready {
		err = cli.Errorf(cli.ExitFailed, "the server on %s records nothing", c.Data)
	}
	return err
}

// status asks how the server is: a node for itself, and its leader for the work that the leader does.
func (c Status) status(a *cli.App, m *cli.Client, s *wire.Status) error {
	if !datadir.Dir(c.Data).Clustered() {
		return m.Call(a.Ctx, http.MethodGet, "/admin/status", nil, s)
	}
	if err := m.Call(a.Ctx, http.MethodGet, "/admin/cluster/status", nil, s); err != nil || !s.Ready {
		return err
	}
	var leads wire.Status
	if err := m.Call(a.Ctx, http.MethodGet, "/admin/status", nil, &leads); err != nil {
		s.Ready, s.Trouble = false, append(s.Trouble, err.Error())
		return nil
	}
	s.Connectors, s.NotificationsPending, s.NotificationsUndelivered = leads.Connectors, leads.NotificationsPending, leads.NotificationsUndelivered
	known := func(trouble string) bool { return slices.Contains(s.Trouble, trouble) }
	s.Trouble = append(s.Trouble, slices.DeleteFunc(leads.Trouble, known)...)
	return nil
}

// connectorLine is what a route's connector does.
func connectorLine(c wire.ConnectorStatus) string {
	line := c.Route
	if c.Paused {
		line += " (paused)"
	}
	line += fmt.Sprintf(": %s begun in 24 hours", cli.Count(c.Begun, "attempt"))
	if c.SuccessRate != nil {
		line += fmt.Sprintf(", %.1f %% of those that ended were paid", 100**c.SuccessRate)
	}
	open := 0
	var parts []string
	for _, kind := range domain.WorkKinds() {
		if n := c.Open[kind]; n > 0 {
			open += n
			parts = append(parts, fmt.Sprintf("%s %d", kind, n))
		}
	}
	if open > 0 {
		line += fmt.Sprintf("; %d open (%s)", open, strings.Join(parts, ", "))
	}
	return line
}
