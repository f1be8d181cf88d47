package account

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/rs/zerolog"
)

// failure is a request that is answered with a page that says what is wrong.
// Its words are "failure.<why>.title" and "failure.<why>.text".
type failure struct {
	status int
	why    string
	cause  error  // for the log; may be nil
	path   string // below the account: where to go on, "" for its start
}

func (f *failure) Error() string {
	if f.cause != nil {
		return f.why + ": " + f.cause.Error()
	}
	return f.why
}

func (f *failure) Unwrap() error { return f.cause }

// failurePage is what failure.html is filled with.
type failurePage struct {
	desk
	Status        int
	Heading, Text string
	RequestID     string
	OnTo          string // an address
	OnText        string
}

// fail answers an error.
func (v *visit) fail(err error) {
	var p *Problem
	var f *failure
	switch {
	case errors.As(err, &p):
		if p.Status == http.StatusUnauthorized || p.Code == "project_disabled" {
			v.endSession()
			if err := v.toSignIn(); err == nil {
				return
			}
		}
	case errors.As(err, &f):
	default:
		f = &failure{status: http.StatusInternalServerError, why: "broken", cause: err}
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			f = &failure{status: http.StatusServiceUnavailable, why: "busy", cause: err}
		}
	}
	page := failurePage{desk: v.desk(v.locale.T("account.failed")), RequestID: v.w.Header().Get("X-Request-Id")}
	page.OnTo, page.OnText = page.Root+v.start(), v.locale.T("account.to_start")
	if p != nil {
		page.Status, page.Heading, page.Text = p.Status, problemHeading(v, p), problemText(v.locale, p)
		if p.RetryAfter != "" {
			v.w.Header().Set("Retry-After", p.RetryAfter)
		}
	} else {
		page.Status = f.status
		page.Heading, page.Text = v.locale.T("failure."+f.why+".title"), v.locale.T("failure."+f.why+".text")
		if f.path != "" {
			page.OnTo, page.OnText = page.Root+f.path, v.locale.T("account.to_result")
		}
	}
	page.Title = page.Heading + " · " + v.locale.T("account.title")
	if page.Status >= http.StatusInternalServerError && v.r.Context().Err() == nil {
		v.log().Error().Err(err).Int("status", page.Status).Msg("a page of the account failed")
	}
	if err := v.render(page.Status, "failure.html", page); err != nil {
		v.log().Error().Err(err).Msg("a page of the account failed")
		http.Error(v.w, page.Heading, page.Status)
	}
}

// problemHeading is short: the kind of a problem.
func problemHeading(v *visit, p *Problem) string {
	switch p.Status {
	case http.StatusNotFound:
		return v.locale.T("failure.missing")
	case http.StatusForbidden:
		return v.locale.T("failure.forbidden")
	case http.StatusTooManyRequests:
		return v.locale.T("failure.slow")
	case http.StatusConflict:
		return v.locale.T("failure.conflict")
	}
	if p.Status >= http.StatusInternalServerError {
		return v.locale.T("failure.broken.title")
	}
	return v.locale.T("failure.refused")
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

// log is the request's logger where it has one.
func (v *visit) log() *zerolog.Logger {
	if l := zerolog.Ctx(v.r.Context()); l.GetLevel() != zerolog.Disabled {
		return l
	}
	return &v.Log
}
