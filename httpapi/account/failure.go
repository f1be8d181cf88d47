package account

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"payledger/httpapi/ui"
	"payledger/httpapi/wire"
)

// failure is a request that is answered with a page that says what is wrong.
// Its words are "failure.<why>.title" and "failure.<why>.text".
type failure struct {
	status int
	why    string
	path   string // below the account: where to go on, "" for its start
}

func (f *failure) Error() string { return f.why }

// failurePage is what failure.html is filled with.
type failurePage struct {
	pageData
	Status        int
	Heading, Text string
	RequestID     string
	OnTo          string // an address
	OnText        string
}

// fail answers an error with a page. The error that it answers itself is that
// of an answer that cannot be completed.
func (v *visit) fail(err error) error {
	if v.x.Begun() {
		return err
	}
	v.x.Header().Del("Content-Disposition") // of a file that did not come about
	f, ours := errors.AsType[*failure](err)
	if !ours && v.over(err) {
		v.endSession()
		return v.toSignIn()
	}
	page := failurePage{pageData: v.pageData(v.locale.T("account.failed")), RequestID: v.x.ID}
	page.OnTo, page.OnText = page.Root+v.start(), v.locale.T("account.to_start")
	if ours {
		page.Status = f.status
		page.Heading, page.Text = v.locale.T("failure."+f.why+".title"), v.locale.T("failure."+f.why+".text")
		if f.path != "" {
			page.OnTo, page.OnText = page.Root+f.path, v.locale.T("account.to_result")
		}
	} else {
		p := v.x.Problem(err)
		page.Status, page.Heading, page.Text = p.Status, problemHeading(v.locale, p), problemText(v.locale, p)
		v.retryAfter(p)
	}
	page.Title = page.Heading + " · " + v.locale.T("account.title")
	return v.render(page.Status, "failure.html", page)
}

// retryAfter hands on when a refused request may come again.
func (v *visit) retryAfter(p wire.Problem) {
	if after := p.Header.Get("Retry-After"); after != "" {
		v.x.Header().Set("Retry-After", after)
	}
}

// refusal is the problem that an error is when the reader can do something
// about it on the page where it happened; nil for every other error.
func (v *visit) refusal(err error) *wire.Problem {
	if err == nil || v.over(err) {
		return nil
	}
	p := v.x.Problem(err)
	if p.Status >= http.StatusInternalServerError {
		return nil
	}
	return &p
}

// refuse shows what the API found wrong with a form: fields at their fields,
// by the first segment of the pointer, everything else at the top of the page.
func (d *pageData) refuse(p *wire.Problem) {
	d.Fields = make(map[string]string)
	for _, f := range p.Errors {
		name, _, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "#/"), "/")
		if _, ok := d.Fields[name]; !ok {
			d.Fields[name] = fieldText(d.Locale, f)
		}
	}
	if len(p.Errors) == 0 {
		d.Alert = &notice{Tone: "bad", Text: problemText(d.Locale, *p)}
	} else {
		d.Alert = &notice{Tone: "bad", Text: d.T("account.check_fields")}
	}
}

// wrongField shows what is wrong with a field before the API is asked.
func (d *pageData) wrongField(name, text string) {
	d.Fields = map[string]string{name: text}
	d.Alert = &notice{Tone: "bad", Text: d.T("account.check_fields")}
}

// problemText says what a refusal means, in the reader's language where there
// are words for it.
func problemText(l *ui.Locale, p wire.Problem) string {
	if id := "problem." + string(p.Code); l.Has(id) {
		return l.T(id)
	}
	return p.Detail
}

func fieldText(l *ui.Locale, f wire.FieldProblem) string {
	if id := "wrong." + string(f.Code); l.Has(id) {
		return l.T(id, "Max", f.Maximum, "Min", f.Minimum, "Allowed", strings.Join(f.Allowed, ", "))
	}
	return f.Detail
}

// problemHeading is short: the kind of a problem.
func problemHeading(l *ui.Locale, p wire.Problem) string {
	switch p.Status {
	case http.StatusNotFound:
		return l.T("failure.missing")
	case http.StatusForbidden:
		return l.T("failure.forbidden")
	case http.StatusTooManyRequests:
		return l.T("failure.slow")
	case http.StatusConflict:
		return l.T("failure.conflict")
	}
	if p.Status >= http.StatusInternalServerError {
		return l.T("failure.broken.title")
	}
	return l.T("failure.refused")
}

// start is where the account begins.
func (h *handler) start() string {
	for _, t := range navigation() {
		if h.has(t.path) {
			return t.path
		}
	}
	return "session"
}

// has reports whether there is a page at a path.
func (h *handler) has(path string) bool {
	return slices.ContainsFunc(h.table, func(p page) bool { return p.path == path && p.method == http.MethodGet })
}
