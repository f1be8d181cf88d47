package account

import (
	"net/http"
	"slices"
	"strconv"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/wire"
)

// eventRow is an event as the page shows it.
type eventRow struct {
	pageData
	moment
	Of  subject
	Raw string // indented
}

func (d pageData) eventRow(l wire.EventLine) (eventRow, error) {
	m, err := momentOf(l)
	return eventRow{pageData: d, moment: m, Raw: pretty(string(l.Event))}, err
}

// eventsPage is what events.html is filled with.
type eventsPage struct {
	pageData
	Payment string // the filter
	May     bool   // the key may read them
	More    bool   // the payment has further events, which are newer
	Rows    []eventRow
	Older   string
	Follows uint64 // where the script goes on, the end of the log; 0: the page does not begin with the newest
}

const shownEvents = 50

func (v *visit) listEvents() error {
	p := eventsPage{pageData: v.pageData(v.Locale.T("events.title")), Payment: v.Filters("payment_id").Get("payment_id"), May: true}
	var lines []wire.EventLine
	var err error
	if p.Payment != "" {
		lines, err = v.eventsOf(&p)
	} else if p.May = p.Who.May(projects.Audit); p.May {
		lines, err = v.newestEvents(&p)
	}
	if err != nil {
		return err
	}
	for _, l := range lines {
		row, err := p.eventRow(l)
		if err != nil {
			return err
		}
		p.Rows = append(p.Rows, row)
	}
	of, err := v.subjects(p.pageData, each(p.Rows, func(r eventRow) *domain.ID { return &r.Payment }))
	if err != nil {
		return err
	}
	for i := range p.Rows {
		p.Rows[i].Of = of.Subject(p.Rows[i].Payment)
	}
	return v.Render(p.Answer(), "events.html", p)
}

// eventsOf returns the first events of one payment, the newest first.
func (v *visit) eventsOf(p *eventsPage) ([]wire.EventLine, error) {
	page, err := v.API.PaymentEvents(v.Ctx(), v.Caller, p.Payment, nil)
	if r := v.Refusal(err); r != nil && r.Status == http.StatusNotFound {
		p.Refuse(r)
		return nil, nil
	}
	p.More = page.NextCursor != nil
	slices.Reverse(page.Data)
	return page.Data, err
}

func (v *visit) newestEvents(p *eventsPage) ([]wire.EventLine, error) {
	after, _ := strconv.ParseUint(v.Query("after"), 10, 63) // of the script, which shows the page without it if something is there
	before, err := strconv.ParseUint(v.Query("before"), 10, 63)
	if v.Query("before") != "" && (err != nil || before == 0) {
		return nil, p.BadFilter(wire.Problem{Code: domain.InvalidCursor})
	}
	lines, last, older, err := v.API.EventsBetween(v.Ctx(), v.Caller, after, before, shownEvents)
	if before == 0 || before > last {
		p.Follows = last
	}
	if older > 0 {
		p.Older = "?before=" + strconv.FormatUint(older, 10)
	}
	return lines, err
}

// Title says what happened to what.
func (r eventRow) Title() string {
	if k, ok := domain.KindOfType(r.Type); ok {
		return r.T("kind." + string(k))
	}
	return r.EventWord(r.Type)
}
