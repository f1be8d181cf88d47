// Package settlements answers what providers' settlement reports have brought: to merchants for
// their own lines, to the operator for all.
package settlements

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
	"payledger/projections/views"
)

// Routes are the rows of a project's own key.
func Routes(cfg merchant.Config, api *merchant.API) []edge.Route {
	own := func(answer func(*edge.Exchange, merchant.Config, string) error) func(*edge.Exchange) error {
		return func(x *edge.Exchange) error {
			c := merchant.CallerOf(x)
			if err := api.Admit(&c, projects.Read, nil); err != nil {
				return err
			}
			return answer(x, cfg, c.Project.ID)
		}
	}
	return []edge.Route{
		{Method: "GET", Path: "/v1/settlements", Operation: "listSettlements", Scope: projects.Read, Handle: own(List)},
		{Method: "GET", Path: "/v1/settlements/{id}", Operation: "getSettlement", Scope: projects.Read, Handle: own(Get)},
	}
}

// List answers the reports in the books of a project, the newest first, or those of all, which are
// in the books of eventstore.KindInstallation.
func List(x *edge.Exchange, cfg merchant.Config, project string) error {
	values, err := x.Values()
	if err != nil {
		return err
	}
	l, err := edge.ParseList(values, "listSettlements", project)
	if err != nil {
		return err
	}
	after, err := strconv.ParseUint("0"+l.After, 10, 63)
	if err != nil {
		return wire.Problem{Code: domain.InvalidCursor}
	}
	found, err := cfg.Views.Settlements(x.Context(), project, eventstore.Position(after), l.Limit+1)
	if err != nil {
		return err
	}
	last := ""
	if len(found) > l.Limit {
		found = found[:l.Limit]
		last = merchant.PositionText(found[l.Limit-1].Position)
	}
	rows := make([]wire.Settlement, len(found))
	for i, s := range found {
		rows[i] = View(*s)
	}
	return edge.ReplyPage(x, edge.PageOf(l, rows, last))
}

// View is a report as it is answered.
func View(s views.Settlement) wire.Settlement {
	v := wire.Settlement{
		ID: settlement.ID(s.Route, s.Report.Report), Route: s.Route, Report: s.Report.Report, Status: wire.SettlementRecording, CreatedAt: s.OpenedAt,
		From: s.Recorded.From, To: s.Recorded.To, Lines: s.Recorded.Lines, Waiting: s.Waiting, Totals: s.Recorded.Totals,
	}
	if v.Totals == nil {
		v.Totals = []settlement.Totals{}
	}
	if s.Closed {
		v.Status = wire.SettlementRecorded
	}
	return v
}

// Get answers the report in the path with a page of a project's lines. Those of all are the lines in
// the books of one project after the other.
func Get(x *edge.Exchange, cfg merchant.Config, project string) error {
	id := x.Vars["id"]
	values, err := x.Values()
	if err != nil {
		return err
	}
	l, err := edge.ParseList(values, "getSettlement", project+"/"+id, "waiting")
	if err != nil {
		return err
	}
	waiting, err := edge.OneOf(l.Filters, "waiting", []string{"true", "false"})
	if err != nil {
		return err
	}
	s, ok, err := cfg.Views.Settlement(x.Context(), project, id)
	if err != nil || !ok {
		if err == nil {
			err = &domain.Refusal{Code: domain.SettlementNotFound}
		}
		return err
	}
	books := []string{project}
	if project == eventstore.KindInstallation {
		books = s.Projects
	}
	page := wire.SettlementPage{Settlement: View(s), Data: []wire.SettlementLine{}}
	at, number := 0, 0
	if l.After != "" {
		begun, digits, _ := strings.Cut(l.After, " ")
		if number, err = strconv.Atoi(digits); err != nil || !slices.Contains(books, begun) {
			return wire.Problem{Code: domain.InvalidCursor}
		}
		at = slices.Index(books, begun)
	}
	var later []settlement.Entry // in others' books; the operator sees them there, and none of them waits
	if project != eventstore.KindInstallation && waiting != "true" {
		if later, err = cfg.Views.LaterLines(x.Context(), project, id, number, l.Limit+1); err != nil {
			return err
		}
	}
	last := ""
	for _, of := range books[at:] {
		more := false
		show := func(e settlement.Entry) bool {
			row := wire.SettlementLine{Entry: e, Resolved: slices.Contains(s.Resolved, e.Number)}
			if open := e.Result.Waits() && !row.Resolved; waiting != "" && open != (waiting == "true") {
				return true
			}
			if more = len(page.Data) == l.Limit; more {
				return false
			}
			if project == eventstore.KindInstallation && of != project {
				row.ProjectID = of
			}
			page.Data = append(page.Data, row)
			last = of + " " + strconv.Itoa(e.Number)
			return true
		}
		upTo := func(number int) bool {
			for ; !more && len(later) > 0 && later[0].Number < number; later = later[1:] {
				show(later[0])
			}
			return !more
		}
		err := cfg.Views.EachSettlementLine(x.Context(), of, id, number, func(e settlement.Entry) bool { return upTo(e.Number) && show(e) })
		if err != nil {
			return err
		}
		if upTo(math.MaxInt); more {
			page.NextCursor = edge.PageOf[int](l, nil, last).NextCursor
			break
		}
		number = 0
	}
	return x.Reply(http.StatusOK, page)
}
