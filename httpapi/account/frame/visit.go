package frame

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/ui"
)

// Visit is one request for a page.
type Visit struct {
	*handler
	X       *edge.Exchange
	Request *http.Request // that of X
	Locale  *ui.Locale
	Vars    map[string]string // the variables of the path
	Caller  merchant.Caller   // of the session's key

	route   *Route
	session session    // zero: not signed in
	until   time.Time  // when it ends, however much it is used
	ended   bool       // there was a session that is over
	form    url.Values // of a POST
	token   string     // of the form that was sent, checked
}

// serve does what every page has in common.
func (v *Visit) serve() error {
	if v.Request.Method != http.MethodPost {
		if !v.route.open && !v.signedIn() {
			return v.toSignIn()
		}
		return v.route.Serve(v)
	}
	if err := v.origins.Check(v.Request); err != nil {
		return &Failure{Status: http.StatusForbidden, Why: "foreign"}
	}
	if !v.route.open && !v.signedIn() {
		return v.toSignIn()
	}
	if err := v.readForm(); err != nil {
		return err
	}
	if v.route.open {
		return v.route.Serve(v)
	}
	if err := v.checkToken(); err != nil {
		return err
	}
	return v.route.Serve(v)
}

// Ctx ends when the client leaves or the time for the answer is over.
func (v *Visit) Ctx() context.Context { return v.X.Context() }

func (v *Visit) signedIn() bool { return v.session.Project != "" }

// Value is a field of the form that was sent, "" unless it was there exactly
// once.
func (v *Visit) Value(name string) string {
	if all := v.form[name]; len(all) == 1 {
		return all[0]
	}
	return ""
}

// Query is a parameter of the address, "" unless it is there exactly once.
func (v *Visit) Query(name string) string {
	if all := v.Request.URL.Query()[name]; len(all) == 1 {
		return all[0]
	}
	return ""
}

// PageData is what every template is filled with; data of a page embeds it.
type PageData struct {
	ui.Page
	Who      Who
	Sandbox  bool // payments can be settled by hand
	SignedIn bool
	Nav      []navItem
	Notice   *Notice // what the form before has led to
	Alert    *Notice // what is wrong with this page
	Fields   map[string]string
	visit    *Visit
	wrong    bool // a filter was refused
}

// navItem is a link of the navigation.
type navItem struct {
	Address, Text string
	Here          bool
}

// Notice is something said at the top of a page.
type Notice struct {
	Tone string // good, bad, warn or info
	Text string
}

// PageData begins the data of a page. The title is shown in the window's title as
// well.
func (v *Visit) PageData(title string) PageData {
	d := PageData{
		Page: v.site.Page(v.Request, v.Locale, Path+"/", title), Who: Who{v.Caller}, Sandbox: v.Sandbox, SignedIn: v.signedIn(), visit: v,
	}
	d.Title = title + " · " + v.Locale.T("account.title")
	if !d.Switch { // a form was sent, which following a link does not repeat
		d.Switch = true
		if v.route == nil || !v.has(v.route.Path) {
			d.Here = d.Root + v.start()
		}
	}
	if !d.SignedIn {
		return d
	}
	d.Notice = v.popNotice()
	here := ""
	if v.route != nil {
		here, _, _ = strings.Cut(v.route.Path, "/")
	}
	for _, t := range v.tabs {
		if v.has(t.Path) {
			d.Nav = append(d.Nav, navItem{Address: d.Root + t.Path, Text: v.Locale.T(t.Word), Here: v.route != nil && here == t.Path})
		}
	}
	return d
}

// Zone names the time zone of the times on the page: Europe/Moscow, UTC+3.
func (d PageData) Zone() string {
	name, offset := d.Who.Calendar().Zone().String(), d.Offset(domain.InstantOf(d.visit.Now()))
	if name == offset {
		return name
	}
	return name + ", " + offset
}

// Field is what is wrong with a field, "" if nothing is.
func (d PageData) Field(name string) string { return d.Fields[name] }

// Values are those of a form's field that can be sent several times.
func (v *Visit) Values(name string) []string { return v.form[name] }

// Fill writes a template that is part of a page.
func (v *Visit) Fill(w io.Writer, template string, data any) error {
	return v.templates.ExecuteTemplate(w, template, data)
}

// Render answers with a page.
func (v *Visit) Render(status int, template string, data any) error {
	if err := v.SaveSession(); err != nil {
		return err
	}
	return ui.Render(v.X, status, v.templates, template, data)
}

// to is the address of a path below the account (no leading slash), as seen
// from this page.
func (v *Visit) to(path string) string { return ui.Root(v.Request, Path+"/") + path }

// Leave sends the browser to another page of the account.
func (v *Visit) Leave(path string) error {
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
func (v *Visit) Done(path, word string) error {
	v.PutNotice("good", v.Locale.T(word))
	return v.Leave(path)
}
