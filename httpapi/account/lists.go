package account

import (
	"context"
	"html/template"
	"maps"
	"net/url"
	"strings"
	"time"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// filters are the parameters of the address that narrow a list and say
// something.
func (v *visit) filters(names ...string) url.Values {
	q := make(url.Values)
	for _, name := range names {
		if text := v.query(name); text != "" {
			q.Set(name, text)
		}
	}
	return q
}

// list reads one page of a list of the API for the page at here. shown are
// the filters as they stand in the page's address, asked those that the API is
// asked with.
func list[T any](
	v *visit, here string, read func(context.Context, merchant.Caller, url.Values) (wire.Page[T], error), shown, asked url.Values,
) ([]T, pager, error) {
	q := maps.Clone(asked)
	if q == nil {
		q = url.Values{}
	}
	q.Set("limit", pageSize)
	if cursor := v.query(cursorParameter); cursor != "" {
		q.Set("cursor", cursor)
	}
	page, err := read(v.ctx(), v.caller, q)
	if err != nil {
		return nil, pager{}, err
	}
	return page.Data, v.pager(here, shown, page.NextCursor), nil
}

// badFilter shows a refused filter on the page; another error is answered.
func (d *pageData) badFilter(err error) error {
	p := d.visit.refusal(err)
	if p == nil || p.Code != domain.InvalidParameter && p.Code != domain.InvalidCursor {
		return err
	}
	d.refuse(p)
	if p.Parameter != "" && p.Code == domain.InvalidParameter {
		d.Alert.Text = d.T("list.bad_filter", "Name", p.Parameter)
	}
	return nil
}

// csv answers a list as a file, which ends when the session ends.
func (v *visit) csv(read func(context.Context, merchant.Caller, url.Values) (edge.Table, error), q url.Values, file string) error {
	table, err := read(v.ctx(), v.caller, q)
	if err != nil {
		return err
	}
	if err := v.saveSession(); err != nil {
		return err
	}
	ctx, end := v.streaming()
	defer end()
	v.x.Request = v.x.Request.WithContext(ctx)
	v.x.Header().Set("Content-Disposition", `attachment; filename="`+file+`"`)
	return v.x.ReplyCSV(table)
}

// dayRange turns the days "from" and "to" of a page's address, both of which
// count, into the bounds that the API takes. What is no day stays as it is, for
// the API to refuse.
func dayRange(q url.Values) {
	for name, later := range map[string]int{"from": 0, "to": 1} {
		if t, err := time.Parse(time.DateOnly, q.Get(name)); err == nil {
			q.Set(name, t.AddDate(0, 0, later).Format(time.RFC3339))
		}
	}
}

// back is the page that a form names as the one it was on, else another.
func (v *visit) back(otherwise string) string {
	if path := v.value("back"); path != "" && v.ours(path) {
		return path
	}
	return otherwise
}

// tell does what a form is for, and leads back to a page that says how it
// went: in the words of an id, or in those of the refusal.
func (v *visit) tell(path string, do func() error, word string) error {
	err := do()
	if p := v.refusal(err); p != nil {
		v.putNotice("bad", problemText(v.locale, *p))
		return v.leave(path)
	}
	if err != nil {
		return err
	}
	return v.done(path, word)
}

// PaymentLink is the id of a payment that leads to its page, with a button
// that copies it.
func (d pageData) PaymentLink(id domain.ID) template.HTML {
	name := id.String() // letters and digits alone
	copyIt := template.HTMLEscapeString(d.T("ui.copy"))
	return template.HTML(`<span class="copyable"><a class="mono" href="` + template.HTMLEscapeString(d.Root) + `payments/` + name + `">` + name + //nolint:gosec // escaped
		`</a><button type="button" class="copy" hidden data-copy="` + name + `" aria-label="` + copyIt + ` ` + name + `" title="` + copyIt + `"></button></span>`)
}

// The API's lists only go on, so a page's address holds the cursors of the
// pages before it, the oldest of which are forgotten: from there Newer leads
// to the first page.
const (
	cursorParameter = "cursor"
	trailParameter  = "trail"
	maxTrail        = 12
)

// pager is the links to the pages beside a page of a list, "" for none.
type pager struct {
	Newest, Newer, Older string
}

// pager makes the links of a list at a path. filters are its address without
// cursors.
func (v *visit) pager(path string, filters url.Values, next *string) pager {
	var p pager
	root := v.to(path)
	address := func(cursor string, trail []string) string {
		q := maps.Clone(filters)
		if q == nil {
			q = url.Values{}
		}
		if cursor != "" {
			q.Set(cursorParameter, cursor)
		}
		if len(trail) > 0 {
			q.Set(trailParameter, strings.Join(trail, "."))
		}
		if len(q) == 0 {
			return root
		}
		return root + "?" + q.Encode()
	}
	here := v.query(cursorParameter)
	var trail []string
	if t := v.query(trailParameter); t != "" {
		trail = strings.Split(t, ".")
	}
	if next != nil {
		on := trail
		if here != "" {
			on = append(on, here)
		}
		p.Older = address(*next, on[max(0, len(on)-maxTrail):])
	}
	if here != "" {
		p.Newest = address("", nil)
		p.Newer = p.Newest
		if n := len(trail); n > 0 {
			p.Newer = address(trail[n-1], trail[:n-1])
		}
	}
	return p
}
