package account

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
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
	Live    string // address of the feed, "" where there is none
	Older   string
	Newest  bool // it begins with the newest
}

const shownEvents = 50

func (v *visit) listEvents() error {
	p := eventsPage{pageData: v.pageData(v.Locale.T("events.title")), Payment: v.Query("payment_id"), May: true}
	var lines []wire.EventLine
	var err error
	if p.Payment != "" {
		lines, err = v.eventsOf(&p)
	} else {
		if p.May = p.Who.May(projects.Audit); p.May {
			lines, err = v.newestEvents(&p)
		}
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
	before, err := strconv.ParseUint(v.Query("before"), 10, 63)
	if v.Query("before") != "" && (err != nil || before == 0) {
		return nil, p.BadFilter(wire.Problem{Code: domain.InvalidCursor})
	}
	lines, last, older, err := v.API.EventsBefore(v.Ctx(), v.Caller, before, shownEvents)
	if before == 0 || before > last {
		p.Newest, p.Live = true, p.Root+"events/live?after="+strconv.FormatUint(last, 10)
	}
	if older > 0 {
		p.Older = "?before=" + strconv.FormatUint(older, 10)
	}
	return lines, err
}

// feedTime is how long a feed of events lasts until the page opens it again, which checks the
// session again.
const feedTime = time.Minute

// followEvents answers the feed of events as rows of the page: server-sent
// events "row" whose data is the HTML of one element, now and then "alive", and at
// the end "renew". Following is no use of the session.
func (v *visit) followEvents() error {
	q, err := merchant.ParseFeedQuery(v.Filters("after"), v.Request.Header.Get("Last-Event-Id"))
	if err != nil {
		return err
	}
	feed, err := v.API.Feed(v.Ctx(), v.Caller, q)
	if err != nil {
		return err
	}
	defer feed.Close()
	ctx, end := v.Streaming()
	defer end()
	until := v.Now().Add(feedTime)
	out := v.X.Stream(edge.EventStream)
	d := v.pageData("") // with the answer begun, it takes no notice from another page
	d.Root = "./"       // the rows become part of the page above
	if v.Request.Method == http.MethodHead {
		return nil
	}
	return feed.Serve(ctx, out, func(e merchant.FeedEvent) (string, []byte, error) {
		if e.Position == 0 {
			if v.Now().Before(until) {
				return "alive", []byte("1"), nil
			}
			end()
			return "renew", []byte("1"), nil
		}
		row, err := d.eventRow(e.EventLine)
		if err != nil {
			return "", nil, err
		}
		of, err := v.subjects(d, slices.Values([]domain.ID{row.Payment}))
		if err != nil {
			return "", nil, err
		}
		row.Of = of.Subject(row.Payment)
		var html bytes.Buffer
		err = v.templates.ExecuteTemplate(&html, "event-row", row)
		return "row", bytes.TrimSpace(html.Bytes()), err
	})
}

// Title says what happened to what.
func (r eventRow) Title() string {
	if k, ok := domain.KindOfType(r.Type); ok {
		return r.T("kind." + string(k))
	}
	return r.EventWord(r.Type)
}
