package account

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/ui"
)

// visit is one request for a page.
type visit struct {
	*handler
	X       *edge.Exchange
	Request *http.Request // that of X
	Locale  *ui.Locale
	Vars    map[string]string // the variables of the path
	Caller  merchant.Caller   // of the session's key

	route   *page
	session session    // zero: not signed in
	until   time.Time  // when it ends, however much it is used
	ended   bool       // there was a session that is over
	form    url.Values // of a POST
	token   string     // of the form that was sent, checked
}

// serve does what every page has in common.
func (v *visit) serve() error {
	sent := v.Request.Method == http.MethodPost
	if sent && v.origins.Check(v.Request) != nil {
		return &failure{Status: http.StatusForbidden, Why: "foreign"}
	}
	if !v.route.open && !v.signedIn() {
		return v.toSignIn()
	}
	if sent {
		if err := v.readForm(); err != nil {
			return err
		}
	}
	return v.route.serve(v)
}

// Ctx ends when the client leaves or the time for the answer is over.
func (v *visit) Ctx() context.Context { return v.X.Context() }

func (v *visit) signedIn() bool { return v.session.Project != "" }

// Value is a field of the form that was sent, "" unless it was there exactly
// once.
func (v *visit) Value(name string) string { return ui.One(v.form[name]) }

// Query is a parameter of the address, "" unless it is there exactly once.
func (v *visit) Query(name string) string { return ui.One(v.Request.URL.Query()[name]) }

// pageData is what every template is filled with; data of a page embeds it.
type pageData struct {
	ui.Page
	Who      who
	Sandbox  bool // payments can be settled by hand
	SignedIn bool
	Nav      []navItem
	Notice   *notice // what the form before has led to
	Alert    *notice // what is wrong with this page
	Fields   map[string]string
	visit    *visit
	wrong    bool // a filter was refused
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
		Page: v.site.Page(v.Request, v.Locale, Path+"/", title), Who: who{v.Caller}, Sandbox: v.config.Sandbox != nil, SignedIn: v.signedIn(), visit: v,
	}
	d.Title = title + " · " + v.Locale.T("account.title")
	if !d.Switch { // a form was sent, which following a link does not repeat
		d.Switch = true
		if v.route == nil || !v.has(v.route.path) {
			d.Here = d.Root
		}
	}
	if !d.SignedIn {
		return d
	}
	d.Notice = v.popNotice()
	here := ""
	if v.route != nil {
		here, _, _ = strings.Cut(v.route.path, "/")
	}
	for _, t := range tabs() {
		d.Nav = append(d.Nav, navItem{Address: d.Root + t.path, Text: v.Locale.T(t.word), Here: v.route != nil && here == t.path})
	}
	return d
}

// Zone names the time zone of the times on the page: Europe/Moscow, UTC+3.
func (d pageData) Zone() string {
	name, offset := d.Who.Calendar().Zone().String(), d.Offset(domain.InstantOf(d.visit.config.Now()))
	if name == offset {
		return name
	}
	return name + ", " + offset
}

// Field is what is wrong with a field, "" if nothing is.
func (d pageData) Field(name string) string { return d.Fields[name] }

// Render answers with a page.
func (v *visit) Render(status int, template string, data any) error {
	if err := v.SaveSession(); err != nil {
		return err
	}
	return ui.Render(v.X, status, v.templates, template, data)
}

// to is the address of a path below the account (no leading slash), as seen
// from this page.
func (v *visit) to(path string) string { return ui.Root(v.Request, Path+"/") + path }

// Leave sends the browser to another page of the account.
func (v *visit) Leave(path string) error {
	if err := v.SaveSession(); err != nil {
		return err
	}
	// Relative, so that it works behind a proxy that adds a path.
	v.X.Header().Set("Location", v.to(path))
	v.X.WriteHeader(http.StatusSeeOther)
	return nil
}

// Done ends a successful form: the browser is redirected to a page that shows the text with the id
// word.
func (v *visit) Done(path, word string) error {
	v.PutNotice("good", v.Locale.T(word))
	return v.Leave(path)
}
