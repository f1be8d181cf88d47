package account

import (
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"time"

	"payledger/domain"
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

// readList reads one page of a list of the API for the page at here. shown are
// the filters as they stand in the page's address, asked those that the API is
// told. A refused filter shows as an alert on an empty list.
func readList[T any](v *visit, d *desk, here, path string, shown, asked url.Values) ([]T, pager, error) {
	q := make(url.Values, len(asked)+2)
	maps.Copy(q, asked)
	q.Set("limit", pageSize)
	if cursor := v.query(cursorParameter); cursor != "" {
		q.Set("cursor", cursor)
	}
	list, err := get[listOf[T]](v, path, q)
	if err != nil {
		return nil, pager{}, d.badFilter(err)
	}
	return list.Data, v.pager(here, shown, list.Next), nil
}

// badFilter shows a refused filter on the page; another error is answered.
func (d *desk) badFilter(err error) error {
	p := refusal(err)
	if p == nil || p.Code != string(domain.InvalidParameter) && p.Code != string(domain.InvalidCursor) {
		return err
	}
	d.refuse(p)
	if p.Parameter != "" && p.Code == string(domain.InvalidParameter) {
		d.Alert.Text = d.T("list.bad_filter", "Name", p.Parameter)
	}
	return nil
}

// refusal is the problem that an error is when the reader can do something
// about it on the page where it happened; nil for every other error.
func refusal(err error) *Problem {
	p, ok := err.(*Problem) //nolint:errorlint // ask answers it as it is
	if !ok || p.Status >= http.StatusInternalServerError || p.Status == http.StatusUnauthorized || p.Code == string(domain.ProjectDisabledCode) {
		return nil
	}
	return p
}

// csv passes a list on as a file.
func (v *visit) csv(path string, q url.Values, file string) error {
	v.w.Header().Set("Content-Disposition", `attachment; filename="`+file+`"`)
	err := v.stream(path, q, "text/csv")
	if err != nil {
		v.w.Header().Del("Content-Disposition")
	}
	return err
}

// dayRange turns the days "from" and "to" of a page's address, both of which
// count, into the bounds that the API is told. What is no day is handed on for
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
	if p := refusal(err); p != nil {
		v.putNotice("bad", problemText(v.locale, p))
		return v.leave(path)
	}
	if err != nil {
		return err
	}
	return v.done(path, word)
}

// PaymentLink is the id of a payment that leads to its page, with a button
// that copies it.
func (d desk) PaymentLink(id domain.ID) template.HTML {
	name := id.String() // letters and digits alone
	copyIt := template.HTMLEscapeString(d.T("ui.copy"))
	return template.HTML(`<span class="copyable"><a class="mono" href="` + template.HTMLEscapeString(d.Root) + `payments/` + name + `">` + name + //nolint:gosec // escaped
		`</a><button type="button" class="copy" hidden data-copy="` + name + `" aria-label="` + copyIt + ` ` + name + `" title="` + copyIt + `"></button></span>`)
}
