package account

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"payledger/domain"
	"payledger/httpapi/ui"
)

// visit is one request for a page with all that is known of it.
type visit struct {
	*handler
	w      http.ResponseWriter
	r      *http.Request
	locale *ui.Locale
	page   *page
	vars   map[string]string

	session Session // zero: not signed in
	ended   bool    // there was a session that is over
	who     Who
	form    url.Values // of a POST
	token   string     // of the form that was sent, checked
	use     *formUse
}

// serve does what every page has in common.
func (v *visit) serve() error {
	if v.r.Method != http.MethodPost {
		if !v.page.open && !v.signedIn() {
			return v.toSignIn()
		}
		return v.page.serve(v)
	}
	if err := v.origins.Check(v.r); err != nil {
		return &failure{status: http.StatusForbidden, why: "foreign", cause: err}
	}
	if !v.page.open && !v.signedIn() {
		return v.toSignIn()
	}
	if err := v.readForm(); err != nil {
		return err
	}
	if v.page.open {
		return v.page.serve(v)
	}
	return v.once(func() error { return v.page.serve(v) })
}

// admit lets a request pass that is within the limit of its address, or of the
// project.
func (v *visit) admit(project string) error {
	if v.Limit == nil {
		return nil
	}
	wait, ok := v.Limit(v.r, project)
	if ok {
		return nil
	}
	after := strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
	return &Problem{Status: http.StatusTooManyRequests, Code: string(domain.RateLimited), RetryAfter: after}
}

func (v *visit) signedIn() bool { return v.session.Project != "" }

// value is a field of the form that was sent, "" unless it was there exactly
// once.
func (v *visit) value(name string) string {
	if all := v.form[name]; len(all) == 1 {
		return all[0]
	}
	return ""
}

// query is a parameter of the address, "" unless it is there exactly once.
func (v *visit) query(name string) string {
	if all := v.r.URL.Query()[name]; len(all) == 1 {
		return all[0]
	}
	return ""
}

// desk is what every template is filled with; data of a page embeds it.
type desk struct {
	ui.Page
	Who      Who
	SignedIn bool
	Nav      []navItem
	Notice   *notice // what the form before has led to
	Alert    *notice // what is wrong with this page
	Fields   map[string]string
	visit    *visit
}

// navItem is a link of the navigation.
type navItem struct {
	Address, Text string
	Here          bool
}

// notice is something said at the top of a page.
type notice struct {
	Tone string // good, bad, warn or info
	Text string
}

// desk begins the data of a page. The title is shown in the window's title as
// well.
func (v *visit) desk(title string) desk {
	d := desk{
		Page: v.site.Page(v.r, v.locale, Path+"/", title), Who: v.who, SignedIn: v.signedIn(), visit: v,
	}
	d.Title = title + " · " + v.locale.T("account.title")
	if !d.SignedIn {
		return d
	}
	d.Notice = v.popNotice()
	here := ""
	if v.page != nil {
		here, _, _ = strings.Cut(v.page.path, "/")
	}
	for _, t := range navigation() {
		if v.has(t.path) {
			d.Nav = append(d.Nav, navItem{Address: d.Root + t.path, Text: v.locale.T(t.word), Here: v.page != nil && here == t.path})
		}
	}
	return d
}

// Field is what is wrong with a field, "" if nothing is.
func (d desk) Field(name string) string { return d.Fields[name] }

// render answers with a page.
func (v *visit) render(status int, template string, data any) error {
	if err := v.saveSession(); err != nil {
		return err
	}
	return ui.Render(v.w, status, v.templates, template, data)
}

// to is the address of a path below the account (no leading slash), as seen
// from this page.
func (v *visit) to(path string) string { return ui.Root(v.r, Path+"/") + path }

// leave sends the browser to another page of the account.
func (v *visit) leave(path string) error {
	if v.use != nil {
		if err := v.File.formLed(v.token, path); err != nil {
			return err
		}
		v.use.path = path
	}
	if err := v.saveSession(); err != nil {
		return err
	}
	// Relative, so that it holds behind a proxy with a path of its own.
	v.w.Header().Set("Location", v.to(path))
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// done ends a form that did what it was for: the browser is sent to another
// page, which says so in the words of an id.
func (v *visit) done(path, word string) error {
	v.putNotice("good", v.locale.T(word))
	return v.leave(path)
}
