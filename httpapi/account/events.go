package account

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

func (h *handler) eventPages() []page {
	return []page{
		{method: "GET", path: "events", serve: (*visit).listEvents},
		{method: "GET", path: "events/live", serve: (*visit).followEvents},
	}
}

// eventLine is an event as the API lists it: a record of the log.
type eventLine struct {
	Position uint64         `json:"position"`
	Event    jsontext.Value `json:"event"`
}

// eventRow is an event as the page shows it.
type eventRow struct {
	desk
	Position uint64
	ID       domain.ID
	Type     string
	Payment  domain.ID
	At       domain.Instant
	Raw      string // indented
}

func (d desk) eventRow(l eventLine) (eventRow, error) {
	row := eventRow{desk: d, Position: l.Position}
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
	desk
	Payment string // the filter
	May     bool   // the key may read events
	Rows    []eventRow
	Live    string // address of the feed, "" where there is none
	Older   string
	Newest  bool // it begins with the newest
}

const shownEvents = 50

func (v *visit) listEvents() error {
	p := eventsPage{desk: v.desk(v.locale.T("events.title")), Payment: v.query("payment_id"), May: true}
	var lines []eventLine
	var err error
	if p.Payment != "" {
		lines, err = v.eventsOf(&p)
	} else {
		if p.May = v.who.May(string(domain.Audit)); p.May {
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
	return v.render(http.StatusOK, "events.html", p)
}

// eventsOf answers the events of one payment, the newest first.
func (v *visit) eventsOf(p *eventsPage) ([]eventLine, error) {
	path := "/v1/payments/" + url.PathEscape(p.Payment) + "/events"
	list, err := get[listOf[eventLine]](v, path, nil)
	if r := refusal(err); r != nil && r.Status == http.StatusNotFound {
		p.refuse(r)
		return nil, nil
	}
	slices.Reverse(list.Data)
	return list.Data, err
}

// Events can be read forward only, and those of one project lie apart in the
// log: so windows of growing size are read, from the end towards the start,
// until there are enough for a page.
const (
	smallWindow = 256
	largeWindow = 4096
	maxWindows  = 12
)

func (v *visit) newestEvents(p *eventsPage) ([]eventLine, error) {
	b, err := v.books()
	if err != nil {
		return nil, err
	}
	end := b.Position // the last position a window may show
	if before, err := strconv.ParseUint(v.query("before"), 10, 63); err == nil && before > 0 && before <= end {
		end = before - 1
	} else {
		p.Newest, p.Live = true, p.Root+"events/live?after="+strconv.FormatUint(end, 10)
	}
	var lines []eventLine
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

// window reads the project's events after one position, up to another.
func (v *visit) window(after, last uint64) ([]eventLine, error) {
	text, err := v.ask(http.MethodGet, "/v1/events", url.Values{
		"after": {strconv.FormatUint(after, 10)}, "limit": {strconv.FormatUint(last-after, 10)},
	}, nil)
	if err != nil {
		return nil, err
	}
	var lines []eventLine
	for line := range bytes.Lines(text) {
		var l eventLine
		if err := json.Unmarshal(bytes.TrimSpace(line), &l); err != nil {
			return nil, err
		}
		if l.Position > last {
			break
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// Title says what happened to what.
func (r eventRow) Title() string {
	if k, ok := domain.KindOf(r.Type); ok {
		return r.T("kind." + string(k))
	}
	return r.EventWord(r.Type)
}
