package account

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// eventRow is an event as the page shows it.
type eventRow struct {
	pageData
	Position uint64
	ID       domain.ID
	Type     string
	Payment  domain.ID
	Of       subject
	At       domain.Instant
	Raw      string // indented
}

func (d pageData) eventRow(l wire.EventLine) (eventRow, error) {
	row := eventRow{pageData: d, Position: l.Position}
	var head struct {
		ID     domain.ID      `json:"id"`
		Type   string         `json:"type"`
		Stream domain.ID      `json:"stream"`
		At     domain.Instant `json:"at"`
	}
	if err := json.Unmarshal(l.Event, &head); err != nil {
		return row, err
	}
	row.ID, row.Type, row.Payment, row.At = head.ID, head.Type, head.Stream, head.At
	raw := slices.Clone(l.Event)
	if err := raw.Indent(jsontext.WithIndent("  ")); err != nil {
		return row, err
	}
	row.Raw = string(raw)
	return row, nil
}

// eventsPage is what events.html is filled with.
type eventsPage struct {
	pageData
	Payment string // the filter
	May     bool   // the key may read them
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

// eventsOf returns the events of one payment, the newest first.
func (v *visit) eventsOf(p *eventsPage) ([]wire.EventLine, error) {
	page, err := v.API.PaymentEvents(v.Ctx(), v.Caller, p.Payment, nil)
	if r := v.Refusal(err); r != nil && r.Status == http.StatusNotFound {
		p.Refuse(r)
		return nil, nil
	}
	slices.Reverse(page.Data)
	return page.Data, err
}

// Events can be read forward only, and those of one project lie apart in the
// log: so windows of growing size are read, from the end towards the start,
// until there are enough for a page.
const (
	smallWindow = 256
	largeWindow = 4096
	maxWindows  = 12
)

func (v *visit) newestEvents(p *eventsPage) ([]wire.EventLine, error) {
	end, err := v.API.LastPosition(v.Ctx(), v.Caller) // the last one a window may show
	if err != nil {
		return nil, err
	}
	before, err := strconv.ParseUint(v.Query("before"), 10, 63)
	switch {
	case v.Query("before") != "" && (err != nil || before == 0):
		return nil, p.BadFilter(wire.Problem{Code: domain.InvalidCursor})
	case err == nil && before <= end:
		end = before - 1
	default:
		p.Newest, p.Live = true, p.Root+"events/live?after="+strconv.FormatUint(end, 10)
	}
	var lines []wire.EventLine
	size := uint64(smallWindow)
	for range maxWindows {
		if end == 0 || len(lines) >= shownEvents {
			break
		}
		after := end - min(end, size)
		window, err := v.window(after, end)
		if err != nil {
			return nil, err
		}
		slices.Reverse(window)
		lines = append(lines, window...)
		end, size = after, min(size*4, largeWindow)
	}
	if len(lines) > shownEvents {
		lines = lines[:shownEvents]
		end = lines[shownEvents-1].Position - 1
	}
	if end > 0 {
		p.Older = "?before=" + strconv.FormatUint(end+1, 10)
	}
	return lines, nil
}

// errEndOfWindow ends the reading of a feed.
var errEndOfWindow = errors.New("the window ends here")

// window reads the project's events after one position, up to another.
func (v *visit) window(after, last uint64) (lines []wire.EventLine, err error) {
	feed, err := v.API.Feed(v.Ctx(), v.Caller, merchant.FeedQuery{After: after})
	if err != nil {
		return nil, err
	}
	defer feed.Close()
	err = feed.Each(v.Ctx(), func(e merchant.FeedEvent) error {
		if e.Position > last {
			return errEndOfWindow
		}
		lines = append(lines, e.EventLine)
		return nil
	})
	if errors.Is(err, errEndOfWindow) {
		err = nil
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
		err = v.Fill(&html, "event-row", row)
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
