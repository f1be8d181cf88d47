package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
	"payledger/projections/views"
)

// operatorsBooks are the books of what is of no project.
const operatorsBooks = eventstore.KindInstallation

func (a *admin) settlementRoutes() []edge.Route {
	const all, one = "/admin/settlements", "/admin/settlements/{id}"
	h := a.api.Handlers()
	return []edge.Route{
		{Method: "POST", Path: all, Operation: "adminOpenSettlement", Body: true, Handle: a.openSettlement},
		{Method: "GET", Path: all, Operation: "adminListSettlements", Handle: h.ListSettlements},
		{Method: "POST", Path: all + "/match", Operation: "adminMatchSettlement", Body: true, Most: wire.MaxSettlementBytes, Handle: a.matchSettlement},
		{Method: "GET", Path: one, Operation: "adminGetSettlement", Handle: h.GetSettlement},
		{Method: "POST", Path: one + "/lines", Operation: "adminRecordSettlement", Body: true, Most: wire.MaxSettlementBytes, Handle: a.recordSettlement},
		{Method: "POST", Path: one + "/close", Operation: "adminCloseSettlement", Handle: a.closeSettlement},
		{Method: "POST", Path: one + "/lines/{number}/resolve", Operation: "adminResolveSettlement", Body: true, Handle: a.resolveSettlement},
		{Method: "GET", Path: "/admin/reconcile", Operation: "adminReconcile", Endless: true, Handle: a.reconcile},
	}
}

// onReports runs a command on the reports of a route, and answers the report.
func (a *admin) onReports(x *edge.Exchange, event domain.ID, route, report string, c settlement.ReportsCommand) error {
	made, err := eventstore.Execute(x.Context(), a.cfg.Ledger, eventstore.ReportsStream(route), settlement.Reports{Route: route}, c,
		eventstore.Order{EventID: event, Cause: causeOf(x)})
	if err != nil {
		return err
	}
	s, _, err := a.cfg.Views.Settlement(x.Context(), operatorsBooks, settlement.ID(route, report))
	if err != nil {
		return err
	}
	if made.Event != nil && made.Event.Type() == settlement.TypeReportOpened {
		return x.Reply(http.StatusCreated, merchant.SettlementOf(s))
	}
	return x.Reply(http.StatusOK, merchant.SettlementOf(s))
}

// openSettlement begins to record a report. A repeated request answers the report.
func (a *admin) openSettlement(x *edge.Exchange) error {
	var req wire.OpenSettlement
	if err := json.Unmarshal(x.Body, &req, json.RejectUnknownMembers(true)); err != nil {
		return edge.BadParameter("body", "Send route, report, sha256 and summary, as the documentation of the command has them.")
	}
	switch {
	case !domain.ValidRoute(req.Route):
		return edge.BadParameter("route", "Send the name of a route.")
	case !settlement.ValidReport(req.Report):
		return edge.BadParameter("report", "Send the provider's id of the report: 1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore.")
	case !req.Summary.Valid():
		return edge.BadParameter("summary", "Send the number of lines, the first and the last day, and for each currency, in alphabetical order, sums with net = gross - fee.")
	}
	event := a.cfg.IDs.Next()
	if !req.Summary.Timely(domain.IDTime(event)) {
		return edge.BadParameter("summary", fmt.Sprintf("Send days from %s to %d days ahead.", settlement.Earliest, settlement.MaxAhead/(24*time.Hour)))
	}
	if err := a.checkRoute(req.Route); err != nil {
		return err
	}
	return a.onReports(x, event, req.Route, req.Report, settlement.OpenReport{At: domain.IDTime(event), Report: settlement.Report{
		Route: req.Route, Report: req.Report, SHA256: req.SHA256, FeesPaidBy: a.feesPaidBy(req.Route), Summary: req.Summary,
	}})
}

// closeSettlement says that all lines are recorded.
func (a *admin) closeSettlement(x *edge.Exchange) error {
	s, err := a.settlement(x)
	if err != nil {
		return err
	}
	report := s.Report.Report
	return a.onReports(x, a.cfg.IDs.Next(), s.Route, report, settlement.CloseReport{Report: report, Recorded: s.Recorded})
}

// settlement is the report in the path.
func (a *admin) settlement(x *edge.Exchange) (views.Settlement, error) {
	s, ok, err := a.cfg.Views.Settlement(x.Context(), operatorsBooks, x.Vars["id"])
	if err == nil && !ok {
		err = &domain.Refusal{Code: domain.SettlementNotFound}
	}
	return s, err
}

// feesPaidBy is who bears the fees of a route.
func (a *admin) feesPaidBy(route string) settlement.Bearer {
	if a.cfg.Routes != nil {
		for _, r := range a.cfg.Routes.List() {
			if r.Route == route && r.FeesPaidBy != "" {
				return r.FeesPaidBy
			}
		}
	}
	return settlement.ByOperator
}

// settlementLines reads lines, whose numbers follow one another.
func settlementLines(x *edge.Exchange) (wire.SettlementLines, error) {
	var req wire.SettlementLines
	if err := json.Unmarshal(x.Body, &req, json.RejectUnknownMembers(true)); err != nil {
		return req, edge.BadParameter("lines", "Send lines of the report: number, kind, gross, fee, net, currency and settled_on, with payment_id, refund_id and reference where it has them.")
	}
	if n := len(req.Lines); n == 0 || n > wire.MaxSettlementLines {
		return req, edge.BadParameter("lines", fmt.Sprintf("Send 1 to %d lines.", wire.MaxSettlementLines))
	}
	for i, l := range req.Lines {
		member := l.Check()
		if i > 0 && l.Number != req.Lines[i-1].Number+1 {
			member = "number"
		}
		if member != "" {
			return req, edge.BadParameter("lines", fmt.Sprintf("Line %d, element %d: its %s is not possible.", l.Number, i, member))
		}
	}
	return req, nil
}

// matchSettlement says what lines are, and records nothing.
func (a *admin) matchSettlement(x *edge.Exchange) error {
	req, err := settlementLines(x)
	if err != nil {
		return err
	}
	if err := a.checkRoute(req.Route); err != nil {
		return err
	}
	m := a.matcher(req.Route)
	page := wire.Page[wire.SettlementLine]{Data: make([]wire.SettlementLine, len(req.Lines))}
	for i, l := range req.Lines {
		p, e, err := m.match(x.Context(), l)
		if err != nil {
			return err
		}
		if page.Data[i].Entry = e; e.Result.OfPayment() {
			page.Data[i].ProjectID = p.Project
		}
		if p.Status == domain.AwaitingPayment {
			p.Status = domain.Paid // what it will say then
		}
		if says, ok := l.Says(p); ok && e.Result == settlement.Settled {
			page.Data[i].Says = says.Outcome
		}
	}
	return x.Reply(http.StatusOK, page)
}

// matcher finds the payments of lines.
type matcher struct {
	a       *admin
	route   string
	cleared map[domain.ID]settlement.Cleared // with what the lines before have settled
	began   time.Time                        // the work since the last pause
	last    eventstore.Position              // of the log at the last pause, and what was recorded here since
}

func (a *admin) matcher(route string) *matcher {
	return &matcher{a: a, route: route, cleared: make(map[domain.ID]settlement.Cleared), began: time.Now()}
}

// How long lines are worked on until payments go first, and for how many times as long they do while
// others record something.
const (
	work  = 2 * time.Millisecond
	paces = 8
)

// pause pauses when it is time to, so that the work takes half a core at most.
func (m *matcher) pause(ctx context.Context) error {
	rest := time.Since(m.began)
	if rest < work {
		return nil
	}
	last, err := m.a.cfg.Ledger.Store.Last(ctx)
	if err != nil {
		return err
	}
	if last != m.last {
		m.last, rest = last, paces*rest
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rest):
	}
	m.began = time.Now()
	return nil
}

// match says what a line is, and which payment it names.
func (m *matcher) match(ctx context.Context, l settlement.Line) (p domain.Payment, e settlement.Entry, err error) {
	if err := m.pause(ctx); err != nil {
		return p, e, err
	}
	if _, ok := domain.ParseID(l.PaymentID); !ok {
		l.PaymentID = "" // another program's
	}
	if _, ok := domain.ParseID(l.RefundID); !ok {
		l.RefundID = ""
	}
	if p, err = m.a.cfg.Views.PaymentOfLine(ctx, m.route, l); err != nil {
		return p, e, err
	}
	cleared, known := m.cleared[p.ID]
	if !known && p.Status != "" {
		if cleared, err = m.a.cfg.Views.Cleared(ctx, p.ID); err != nil {
			return p, e, err
		}
	}
	e = settlement.Entry{Line: l, Result: settlement.Judge(m.route, l, p, cleared.Of(l))}
	if e.Result.OfPayment() {
		e.PaymentID = p.ID.String()
	}
	if e.Result == settlement.Settled {
		m.cleared[p.ID] = cleared.With(l, "")
	}
	return p, e, nil
}

// recordSettlement records lines of an open report. Those that are recorded already are passed
// over, so that an import that was interrupted can begin again.
func (a *admin) recordSettlement(x *edge.Exchange) error {
	req, err := settlementLines(x)
	if err != nil {
		return err
	}
	a.cfg.Settling.Lock()
	defer a.cfg.Settling.Unlock()
	id := x.Vars["id"]
	s, err := a.settlement(x)
	if err != nil || s.Closed {
		return x.Answer(merchant.SettlementOf(s), err)
	}
	first := req.Lines[0].Number
	recorded := make(map[int]bool) // from the first on
	for _, project := range s.Projects {
		err := a.cfg.Views.EachSettlementLine(x.Context(), project, id, first-1, func(e settlement.Entry) bool {
			recorded[e.Number] = true
			return true
		})
		if err != nil {
			return err
		}
	}
	if before := s.Recorded.Lines - len(recorded); before != first-1 {
		return edge.BadParameter("lines", fmt.Sprintf("Begin at line %d or before it: those before are recorded.", before+1))
	}
	if last := req.Lines[len(req.Lines)-1].Number; last > s.Summary.Lines {
		return edge.BadParameter("lines", fmt.Sprintf("The report has %d lines, and this is line %d.", s.Summary.Lines, last))
	}
	m := a.matcher(s.Route)
	lines := make(map[string][]settlement.Text)
	// The operator's own go first: what is of no payment yet may be of one when an import that was
	// interrupted goes on, and in the book of its project, whose numbers rise, it would come too late.
	projects := []string{operatorsBooks}
	for _, l := range req.Lines {
		if recorded[l.Number] {
			continue
		}
		p, e, err := m.match(x.Context(), l)
		if err != nil {
			return err
		}
		project := operatorsBooks
		if e.Result.OfPayment() {
			project = p.Project
		}
		if lines[project] == nil && project != operatorsBooks {
			projects = append(projects, project)
		}
		lines[project] = append(lines[project], e.Text())
	}
	for _, project := range projects {
		if err := m.record(x, project, s.Report, lines[project]); err != nil {
			return err
		}
	}
	s, err = a.settlement(x)
	return x.Answer(merchant.SettlementOf(s), err)
}

// record records lines of a project, in as many events as it takes. It needs the number of the
// book's last line and nothing else of the book, which may be long.
func (m *matcher) record(x *edge.Exchange, project string, of settlement.Report, lines []settlement.Text) error {
	a, id := m.a, settlement.ID(of.Route, of.Report)
	last, before, err := a.cfg.Views.LastSettlementLines(x.Context(), project, id)
	if err != nil {
		return err
	}
	stream := eventstore.BookStream(project, id)
	book := settlement.Book{Project: project, Route: of.Route, Report: of.Report}.Evolve(before)
	book, last, err = eventstore.FoldAfter(x.Context(), a.cfg.Ledger, stream, book, last)
	for err == nil && len(lines) > 0 {
		if err = m.pause(x.Context()); err != nil {
			break
		}
		n, size := 0, 0
		for n < len(lines) && (n == 0 || size+lines[n].Size() <= settlement.MaxLines) {
			size += lines[n].Size()
			n++
		}
		var e domain.Event
		if e, err = book.Decide(settlement.RecordLines{FeesPaidBy: of.FeesPaidBy, Lines: lines[:n]}); err != nil {
			break
		}
		var c eventstore.Commit
		if c, err = a.cfg.Ledger.Commit(stream, last, e, eventstore.Order{EventID: a.cfg.IDs.Next(), Cause: causeOf(x)}); err != nil {
			break
		}
		if last, err = eventstore.AppendOne(x.Context(), a.cfg.Ledger.Store, c); err == nil {
			book, lines = book.Evolve(e), lines[n:]
			m.last++
		}
	}
	if _, conflict := errors.AsType[*eventstore.ConflictError](err); conflict {
		return eventstore.ErrBusy // another node records the same lines
	}
	return err
}

// resolveSettlement takes a line out of suspense.
func (a *admin) resolveSettlement(x *edge.Exchange) error {
	var req wire.ResolveLine
	if err := json.Unmarshal(x.Body, &req, json.RejectUnknownMembers(true)); err != nil {
		return edge.BadParameter("to", "Send to, which is payment, fee or write_off, payment_id with payment, and the reason.")
	}
	route, report, ok := settlement.ParseID(x.Vars["id"])
	number, err := strconv.Atoi(x.Vars["number"])
	if !ok || err != nil {
		return &domain.Refusal{Code: domain.SettlementLineNotFound}
	}
	c := settlement.ResolveLine{Number: number, To: req.To, Reason: req.Reason}
	var p domain.Payment
	if req.To == settlement.ToPayment {
		id, _ := domain.ParseID(req.PaymentID)
		if p, ok, err = a.cfg.Views.Payment(x.Context(), id); err != nil {
			return err
		}
		if !ok {
			return &domain.Refusal{Code: domain.PaymentNotFound}
		}
		if p.Route != route {
			return edge.BadParameter("payment_id", "The report is of route "+route+", and this payment is not.")
		}
		c.Payment, c.Project = p.ID.String(), p.Project
	}
	a.cfg.Settling.Lock()
	defer a.cfg.Settling.Unlock()
	s, err := a.settlement(x)
	if err != nil {
		return err
	}
	c.FeesPaidBy = s.FeesPaidBy
	for _, project := range s.Projects {
		stream, start := eventstore.BookStream(project, x.Vars["id"]), settlement.Book{Project: project, Route: route, Report: report}
		book, _, err := eventstore.Fold(x.Context(), a.cfg.Ledger, stream, start)
		if err != nil {
			return err
		}
		if e, found := book.Find(number); found && c.Payment != "" {
			if c.Settles, c.Currency = settlement.Settles(e.Line, p); c.Currency == "" {
				return edge.BadParameter("payment_id", "The line is of a dispute in another currency than the payment's, and the payment has no dispute "+
					e.Reference+": record that first (payledger dispute open), or book the line as a fee or write it off.")
			}
		}
		_, err = eventstore.Execute(x.Context(), a.cfg.Ledger, stream, start, settlement.BookCommand(c),
			eventstore.Order{EventID: a.cfg.IDs.Next(), Cause: causeOf(x)})
		wrong, isWrong := errors.AsType[domain.FieldErrors](err)
		refused, isRefused := errors.AsType[*domain.Refusal](err)
		switch {
		case isRefused && refused.Code == domain.SettlementLineNotFound:
			continue // it is in the books of another
		case isWrong && wrong[0].Field == "reason":
			return edge.BadParameter("reason", "Say in 1 to 256 characters why, for the auditor.")
		case isWrong:
			return edge.BadParameter("to", "Send payment, fee or write_off.")
		case err != nil:
			return err
		}
		return x.Reply(http.StatusOK, map[string]string{"line": settlement.LineID(x.Vars["id"], number), "to": string(req.To)})
	}
	return &domain.Refusal{Code: domain.SettlementLineNotFound}
}

// reconcile answers what is open between outcomes and reports. It folds the log, so that it can do
// so as of any time.
func (a *admin) reconcile(x *edge.Exchange) error {
	q, err := x.Query("route", "as_of", "days")
	if err != nil {
		return err
	}
	days := uint64(3)
	if q.Has("days") {
		if days, err = q.Number("days", ""); err != nil || days > 10_000 {
			return edge.BadParameter("days", "Send how many days a report may take, 0 to 10000.")
		}
	}
	asOf, err := q.Instant("as_of")
	if err != nil {
		return err
	}
	now := cmp.Or(asOf, domain.InstantOf(a.cfg.Now()))
	acts, _, err := eventstore.Fold(x.Context(), a.cfg.Ledger, eventstore.InstallationStream(), installation.Installation{})
	if err != nil {
		return err
	}
	open, out := settlement.NewOpen(acts.SettledSince), wire.Reconciliation{Remainder: []settlement.Remainder{}}
	for r, err := range a.cfg.Ledger.Store.Scan(x.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			return err
		}
		if asOf != 0 && domain.InstantOf(r.At) > asOf { // see books.Books.PositionAt
			break
		}
		if out.Position = uint64(r.Position); !slices.Contains([]string{eventstore.KindPayment, eventstore.KindSettlement, eventstore.KindPayouts}, r.Stream.Kind) {
			continue
		}
		e, err := a.cfg.Ledger.Codec.Event(r)
		if err != nil {
			return err
		}
		open.Fold(r.Stream.Project, r.Stream.ID, domain.InstantOf(r.At), e)
	}
	out.Matched, out.Differences = open.Matched(q["route"]), open.Differences(now, int(days), q["route"])
	for _, d := range out.Differences {
		out.Remainder = settlement.AddRemainder(out.Remainder, d.Currency, d.Amount)
	}
	out.NotExpected = open.NotExpected(q["route"])
	if err := a.checkRoute(q["route"]); err != nil && out.Matched+len(out.Differences)+len(out.NotExpected) == 0 {
		return err // a route that is gone from the file may be in the books
	}
	return x.Reply(http.StatusOK, out)
}
