package merchant

import (
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/views"
)

// books are those whose reports the caller sees: merchants have reports of their own lines, and the
// operator all of them.
func (c Caller) books() string {
	if c.operator {
		return eventstore.KindInstallation
	}
	return c.Project.ID
}

// ListSettlements answers GET /v1/settlements: the reports, the newest first.
func (h Handlers) ListSettlements(x *edge.Exchange) error {
	project := CallerOf(x).books()
	l, err := x.List("listSettlements", project)
	if err != nil {
		return err
	}
	after, err := strconv.ParseUint("0"+l.After, 10, 63)
	if err != nil {
		return wire.Problem{Code: domain.InvalidCursor}
	}
	found, err := h.api.cfg.Views.Settlements(x.Context(), project, eventstore.Position(after), l.Limit+1)
	if err != nil {
		return err
	}
	last := ""
	if len(found) > l.Limit {
		found = found[:l.Limit]
		last = PositionText(found[l.Limit-1].Position)
	}
	rows := make([]wire.Settlement, len(found))
	for i, s := range found {
		rows[i] = SettlementOf(*s)
	}
	return edge.ReplyPage(x, edge.PageOf(l, rows, last))
}

// SettlementOf is a report as it is answered.
func SettlementOf(s views.Settlement) wire.Settlement {
	v := wire.Settlement{
		ID: settlement.ID(s.Route, s.Report.Report), Route: s.Route, Report: s.Report.Report, Status: wire.SettlementRecording, CreatedAt: s.OpenedAt,
		From: s.Recorded.From, To: s.Recorded.To, Lines: s.Recorded.Lines, Waiting: s.Waiting,
		Totals: append([]settlement.Totals{}, s.Recorded.Totals...),
	}
	if s.Closed {
		v.Status = wire.SettlementRecorded
	}
	return v
}

// GetSettlement answers GET /v1/settlements/{id}: the report with a page of the caller's lines. Those
// of all are the lines in the books of one project after the other.
func (h Handlers) GetSettlement(x *edge.Exchange) error {
	id, _ := url.PathUnescape(x.Vars["id"]) // generated clients encode its colon
	project := CallerOf(x).books()
	l, err := x.List("getSettlement", project+"/"+id, "waiting")
	if err != nil {
		return err
	}
	waiting, err := edge.OneOf(l.Filters, "waiting", []string{"true", "false"})
	if err != nil {
		return err
	}
	s, ok, err := h.api.cfg.Views.Settlement(x.Context(), project, id)
	if _, _, valid := settlement.ParseID(id); err == nil && (!ok || !valid) {
		err = &domain.Refusal{Code: domain.SettlementNotFound}
	}
	if err != nil {
		return err
	}
	books := []string{project}
	if project == eventstore.KindInstallation {
		books = s.Projects
	}
	page := wire.SettlementPage{Settlement: SettlementOf(s), Data: []wire.SettlementLine{}}
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
		if later, err = h.api.cfg.Views.LaterLines(x.Context(), project, id, number, l.Limit+1); err != nil {
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
		err := h.api.cfg.Views.EachSettlementLine(x.Context(), of, id, number, func(e settlement.Entry) bool { return upTo(e.Number) && show(e) })
		if err != nil {
			return err
		}
		if upTo(math.MaxInt); more {
			page.NextCursor = edge.PageOf[int](l, nil, last).NextCursor
			break
		}
		number = 0
	}
	return x.ReplyPart(page, page.NextCursor)
}
