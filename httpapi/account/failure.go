package account

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/httpapi/ui"
	"payledger/httpapi/wire"
)

// failure is a request that is answered with a page that says what is wrong.
// Its texts are "failure.<why>.title" and "failure.<why>.text".
type failure struct {
	Status int
	Why    string
	Path   string // below the account: the next page, "" for its start
}

func (f *failure) Error() string { return f.Why }

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
	if v.X.Begun() {
		return err
	}
	v.X.Header().Del("Content-Disposition") // of a file that did not come about
	f, ours := errors.AsType[*failure](err)
	if !ours && v.over(err) {
		v.EndSession()
		return v.toSignIn()
	}
	page := failurePage{pageData: v.pageData(v.Locale.T("account.failed")), RequestID: v.X.ID}
	page.OnTo, page.OnText = page.Root, v.Locale.T("account.to_start")
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
func (v *visit) retryAfter(p wire.Problem) {
	if after := p.Header.Get("Retry-After"); after != "" {
		v.X.Header().Set("Retry-After", after)
	}
}

// Refusal is the problem that an error is when the reader can do something
// about it on the page where it happened; nil for every other error.
func (v *visit) Refusal(err error) *wire.Problem {
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
func (d *pageData) Refuse(p *wire.Problem) {
	d.Fields = make(map[string]string)
	for _, f := range p.Errors {
		name, _, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "#/"), "/")
		if _, ok := d.Fields[name]; !ok {
			d.Fields[name] = fieldText(d.Locale, f)
		}
	}
	d.Alert = &notice{Tone: "bad", Text: d.T("account.check_fields")}
	if len(p.Errors) == 0 {
		d.Alert.Text = ProblemText(d.Locale, *p)
	}
}

// WrongField shows what is wrong with a field before the API is asked.
func (d *pageData) WrongField(name, text string) {
	d.Fields = map[string]string{name: text}
	d.Alert = &notice{Tone: "bad", Text: d.T("account.check_fields")}
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
	word := map[int]string{
		http.StatusNotFound: "missing", http.StatusForbidden: "forbidden", http.StatusTooManyRequests: "slow", http.StatusConflict: "conflict",
	}[p.Status]
	if p.Status >= http.StatusInternalServerError {
		word = "broken.title"
	}
	return l.T("failure." + cmp.Or(word, "refused"))
}

// has reports whether there is a page at a path.
func (h *handler) has(path string) bool {
	return slices.ContainsFunc(h.table, func(p page) bool { return p.path == path && p.method == http.MethodGet })
}
