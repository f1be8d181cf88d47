package account

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"payledger/httpapi/account/store"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/ui"
)

// visit is one request for a page with all that is known of it.
type visit struct {
	*handler
	x      *edge.Exchange
	r      *http.Request // that of x, with the session in its context
	locale *ui.Locale
	page   *page
	vars   map[string]string

	session store.Session // zero: not signed in
	caller  merchant.Caller
	ended   bool       // there was a session that is over
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
		return &failure{status: http.StatusForbidden, why: "foreign"}
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

// ctx ends when the client leaves or the time for the answer is over.
func (v *visit) ctx() context.Context { return v.x.Context() }

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

// pageData is what every template is filled with; data of a page embeds it.
type pageData struct {
	ui.Page
	Who      Who
	Sandbox  bool // payments can be settled by hand
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

// pageData begins the data of a page. The title is shown in the window's title as
// well.
func (v *visit) pageData(title string) pageData {
	d := pageData{
		Page: v.site.Page(v.r, v.locale, Path+"/", title), Who: Who{v.caller}, Sandbox: v.Sandbox, SignedIn: v.signedIn(), visit: v,
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
func (d pageData) Field(name string) string { return d.Fields[name] }

// render answers with a page.
func (v *visit) render(status int, template string, data any) error {
	if err := v.saveSession(); err != nil {
		return err
	}
	return ui.Render(v.x, status, v.templates, template, data)
}

// to is the address of a path below the account (no leading slash), as seen
// from this page.
func (v *visit) to(path string) string { return ui.Root(v.r, Path+"/") + path }

// leave sends the browser to another page of the account.
func (v *visit) leave(path string) error {
	if v.use != nil {
		if err := v.File.FormLed(v.token, path); err != nil {
			return err
		}
		v.use.path = path
	}
	if err := v.saveSession(); err != nil {
		return err
	}
	// Relative, so that it holds behind a proxy with a path of its own.
	v.x.Header().Set("Location", v.to(path))
	v.x.WriteHeader(http.StatusSeeOther)
	return nil
}

// done ends a form that did what it was for: the browser is sent to another
// page, which says so in the words of an id.
func (v *visit) done(path, word string) error {
	v.putNotice("good", v.locale.T(word))
	return v.leave(path)
}
