package frame

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/httpapi/ui"
	"payledger/httpapi/wire"
)

// Failure is a request that is answered with a page that says what is wrong.
// Its texts are "failure.<why>.title" and "failure.<why>.text".
type Failure struct {
	Status int
	Why    string
	Path   string // below the account: the next page, "" for its start
}

func (f *Failure) Error() string { return f.Why }

// failurePage is what failure.html is filled with.
type failurePage struct {
	PageData
	Status        int
	Heading, Text string
	RequestID     string
	OnTo          string // an address
	OnText        string
}

// fail answers an error with a page. The error that it answers itself is that
// of an answer that cannot be completed.
func (v *Visit) fail(err error) error {
	if v.X.Begun() {
		return err
	}
	v.X.Header().Del("Content-Disposition") // of a file that did not come about
	f, ours := errors.AsType[*Failure](err)
	if !ours && v.over(err) {
		v.EndSession()
		return v.toSignIn()
	}
	page := failurePage{PageData: v.PageData(v.Locale.T("account.failed")), RequestID: v.X.ID}
	page.OnTo, page.OnText = page.Root+v.start(), v.Locale.T("account.to_start")
	if ours {
		page.Status = f.Status
		page.Heading, page.Text = v.Locale.T("failure."+f.Why+".title"), v.Locale.T("failure."+f.Why+".text")
		if f.Path != "" {
			page.OnTo, page.OnText = page.Root+f.Path, v.Locale.T("account.to_result")
		}
	} else {
		p := v.X.Problem(err)
		page.Status, page.Heading, page.Text = p.Status, problemHeading(v.Locale, p), ProblemText(v.Locale, p)
		v.retryAfter(p)
	}
	page.Title = page.Heading + " · " + v.Locale.T("account.title")
	return v.Render(page.Status, "failure.html", page)
}

// retryAfter passes on when a refused request may be repeated.
func (v *Visit) retryAfter(p wire.Problem) {
	if after := p.Header.Get("Retry-After"); after != "" {
		v.X.Header().Set("Retry-After", after)
	}
}

// Refusal is the problem that an error is when the reader can do something
// about it on the page where it happened; nil for every other error.
func (v *Visit) Refusal(err error) *wire.Problem {
	if err == nil || v.over(err) {
		return nil
	}
	p := v.X.Problem(err)
	if p.Status >= http.StatusInternalServerError {
		return nil
	}
	return &p
}

// Refuse shows what the API found wrong with a form: fields at their fields,
// by the first segment of the pointer, everything else at the top of the page.
func (d *PageData) Refuse(p *wire.Problem) {
	d.Fields = make(map[string]string)
	for _, f := range p.Errors {
		name, _, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "#/"), "/")
		if _, ok := d.Fields[name]; !ok {
			d.Fields[name] = fieldText(d.Locale, f)
		}
	}
	if len(p.Errors) == 0 {
		d.Alert = &Notice{Tone: "bad", Text: ProblemText(d.Locale, *p)}
	} else {
		d.Alert = &Notice{Tone: "bad", Text: d.T("account.check_fields")}
	}
}

// WrongField shows what is wrong with a field before the API is asked.
func (d *PageData) WrongField(name, text string) {
	d.Fields = map[string]string{name: text}
	d.Alert = &Notice{Tone: "bad", Text: d.T("account.check_fields")}
}

// ProblemText says what a refusal means, in the reader's language where there
// is a text for it.
func ProblemText(l *ui.Locale, p wire.Problem) string {
	if id := "problem." + string(p.Code); l.Has(id) {
		return l.T(id)
	}
	return p.Detail
}

func fieldText(l *ui.Locale, f wire.FieldProblem) string {
	if id := "wrong." + string(f.Code); l.Has(id) {
		return l.T(id, "Max", shownAmount(l, f.Maximum), "Min", shownAmount(l, f.Minimum), "Allowed", strings.Join(f.Allowed, ", "),
			"Example", l.AmountExample())
	}
	return f.Detail
}

// shownAmount is an amount of the API in the form of the pages.
func shownAmount(l *ui.Locale, text string) string {
	a, err := domain.ParseAmount(text)
	if err != nil {
		return text
	}
	return l.Figure(a)
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
	for _, t := range h.tabs {
		if h.has(t.Path) {
			return t.Path
		}
	}
	return "session"
}

// has reports whether there is a page at a path.
func (h *handler) has(path string) bool {
	return slices.ContainsFunc(h.table, func(p Route) bool { return p.Path == path && p.Method == http.MethodGet })
}
