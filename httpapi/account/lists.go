package account

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// pageSize is how many rows a list shows.
const pageSize = "25"

// Filters are the parameters of the address that narrow a list and say
// something. An id may have been pasted in any case, with blanks around it, as into the search.
func (v *visit) Filters(names ...string) url.Values {
	q := make(url.Values)
	for _, name := range names {
		text := v.Query(name)
		if name == "payment_id" {
			text = strings.ToUpper(strings.TrimSpace(text))
		}
		if text != "" {
			q.Set(name, text)
		}
	}
	return q
}

// listOf reads one page of a list of the API for the page at here. shown are the filters in the
// page's address, asked those of the API request.
func listOf[T any](
	v *visit, here string, read func(context.Context, merchant.Caller, url.Values) (wire.Page[T], error), shown, asked url.Values,
) ([]T, pager, error) {
	q := maps.Clone(asked)
	q.Set("limit", pageSize)
	if cursor := v.Query(cursorParameter); cursor != "" {
		q.Set("cursor", cursor)
	}
	page, err := read(v.Ctx(), v.Caller, q)
	for err == nil && len(page.Data) == 0 && page.NextCursor != nil { // one ends early that has looked at much in vain
		q.Set("cursor", *page.NextCursor)
		page, err = read(v.Ctx(), v.Caller, q)
	}
	if p := v.Refusal(err); p != nil && p.Code == domain.InvalidParameter && q.Has("cursor") {
		err = wire.Problem{Code: domain.InvalidCursor} // days have moved: the project has another time zone now
	}
	if err != nil {
		return nil, pager{}, err
	}
	return page.Data, v.pager(here, shown, page.NextCursor), nil
}

// Answer is the status of a page with filters.
func (d *pageData) Answer() int {
	if d.wrong {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// BadFilter shows a refused filter on the page; another error is answered.
func (d *pageData) BadFilter(err error) error {
	p := d.visit.Refusal(err)
	if p == nil || p.Code != domain.InvalidParameter && p.Code != domain.InvalidCursor {
		return err
	}
	d.Refuse(p)
	d.wrong = true
	if p.Parameter != "" && p.Code == domain.InvalidParameter {
		d.Alert.Text = d.T("list.bad_filter", "Name", d.T("filter."+p.Parameter))
	}
	return nil
}

// Streaming is the context of an answer that may last until the session's limit.
func (v *visit) Streaming() (context.Context, context.CancelFunc) {
	return context.WithTimeout(v.Request.Context(), v.until.Sub(v.config.Now()))
}

// replyCSV answers a list as a file for a spreadsheet in the reader's language, which ends
// when the session ends.
func replyCSV[T any](v *visit, list func(merchant.Caller, url.Values) (merchant.Rows[T], error), q url.Values, file string) error {
	rows, err := list(v.Caller, q)
	if err != nil {
		return err
	}
	table := rows.Table()
	decimal := v.Locale.DecimalMark()
	table.Spreadsheet = &edge.Spreadsheet{Separator: ',', Decimal: decimal, Amounts: []string{"amount", "debit", "credit", "balance"}}
	if decimal == "," {
		table.Spreadsheet.Separator = ';'
	}
	if err := v.SaveSession(); err != nil {
		return err
	}
	ctx, end := v.Streaming()
	defer end()
	v.X.Request = v.X.Request.WithContext(ctx)
	v.X.Header().Set("Content-Disposition", `attachment; filename="`+file+`"`)
	return v.X.ReplyCSV(table)
}

// Days turns the days of a page's address, both of which count, into the bounds
// that the API takes: the first instant of one, and the first after the other. A bound
// beyond the instants there are is left out. What is no day stays as it is, for the API to refuse.
func (v *visit) Days(q url.Values, from, to string) {
	days := v.Caller.Calendar()
	for name, after := range map[string]merchant.Day{from: 0, to: 1} {
		d, err := merchant.ParseDay(q.Get(name))
		if err != nil {
			continue
		}
		if at := days.Start(d + after); at > 0 && at.Time().Year() <= 9999 {
			q.Set(name, at.String())
		} else {
			q.Del(name)
		}
	}
}

// Tell ends a form, whatever became of it, and redirects to a page with a notice: the text with the
// id word, or that of the refusal.
func (v *visit) Tell(path string, err error, word string) error {
	if p := v.Refusal(err); p != nil {
		v.PutNotice("bad", ProblemText(v.Locale, *p))
		return v.Leave(path)
	}
	if err != nil {
		return err
	}
	return v.Done(path, word)
}

// The API's lists have only next pages, so a page's address has the cursors of the previous pages.
// The oldest of them are dropped: from there Newer leads to the first page.
const (
	cursorParameter   = "cursor"
	previousParameter = "trail"
	maxPrevious       = 12
)

// pager is the links to the previous and next page of a list, "" for none.
type pager struct {
	Newest, Newer, Older string
}

// pager makes the links of a list at a path. filters are its address without
// cursors.
func (v *visit) pager(path string, filters url.Values, next *string) pager {
	var p pager
	root := v.to(path)
	address := func(cursor string, previous []string) string {
		q := maps.Clone(filters)
		if cursor != "" {
			q.Set(cursorParameter, cursor)
		}
		if len(previous) > 0 {
			q.Set(previousParameter, strings.Join(previous, "."))
		}
		if len(q) == 0 {
			return root
		}
		return root + "?" + q.Encode()
	}
	here := v.Query(cursorParameter)
	var previous []string
	if t := v.Query(previousParameter); t != "" {
		previous = strings.Split(t, ".")
	}
	if next != nil {
		on := previous
		if here != "" {
			on = append(on, here)
		}
		p.Older = address(*next, on[max(0, len(on)-maxPrevious):])
	}
	if here != "" {
		p.Newest = address("", nil)
		p.Newer = p.Newest
		if n := len(previous); n > 0 {
			p.Newer = address(previous[n-1], previous[:n-1])
		}
	}
	return p
}
