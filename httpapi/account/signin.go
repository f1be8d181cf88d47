package account

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"payledger/domain"
	"payledger/httpapi/conns"
)

// signInPage is what signin.html is filled with.
type signInPage struct {
	pageData
	Project, Next string
}

func (v *visit) signInPage(next string) signInPage {
	return signInPage{pageData: v.pageData(v.Locale.T("signin.title")), Next: next}
}

// next is the path of a page to go on to, "" if it is none.
func (v *visit) next(path string) string {
	if !v.ours(path) {
		return ""
	}
	return path
}

func (v *visit) showSignIn() error {
	next := v.next(v.Query("next"))
	if v.signedIn() {
		return v.Leave(next)
	}
	page := v.signInPage(next)
	switch why := v.Query("why"); why {
	case "out", "everywhere":
		page.Notice = &notice{"good", v.Locale.T("signin." + why)}
	case "ended":
		page.Notice = &notice{"warn", v.Locale.T("signin.ended")}
	}
	return v.Render(http.StatusOK, "signin.html", page)
}

// signIn takes project and key. The key is never shown again, not even in the
// form that is answered to a wrong one.
func (v *visit) signIn() error {
	project, key := strings.TrimSpace(v.Value("project")), strings.TrimSpace(v.Value("key"))
	if p, k, ok := strings.Cut(project, ":"); ok && key == "" { // both as in the header of the API
		project, key = p, k
	}
	caller, err := v.API.SignIn(v.Ctx(), conns.Visitor(v.Request), project, key, nil)
	if err == nil {
		if err := v.startSession(caller); err != nil {
			return err
		}
		return v.Leave(v.next(v.Value("next")))
	}
	p := v.X.Problem(err)
	page := v.signInPage(v.next(v.Value("next")))
	page.Project = project
	text := ProblemText(v.Locale, p)
	switch p.Code {
	case domain.Unauthorized:
		text = v.Locale.T("signin.wrong")
	case domain.RateLimited:
		text = v.Locale.T("signin.slow", "Seconds", p.Header.Get("Retry-After"))
	}
	v.retryAfter(p)
	page.Alert = &notice{"bad", text}
	return v.Render(p.Status, "signin.html", page)
}

// sessionPage is what session.html is filled with.
type sessionPage struct {
	pageData
	Since, Until domain.Instant
	Idle         string // how long it may be without use
}

func (v *visit) showSession() error {
	return v.Render(http.StatusOK, "session.html", sessionPage{
		pageData: v.pageData(v.Locale.T("session.title")), Since: v.session.Since, Until: domain.InstantOf(v.until),
		Idle: v.Locale.Left(time.Duration(v.API.Limits(v.Caller.Project).SessionIdleSeconds) * time.Second),
	})
}

// signOut ends the session in this browser. A copy of its cookie stays valid until it was idle for
// too long; signOutEverywhere ends it too.
func (v *visit) signOut() error {
	if err := v.setCookie(outCookie, strconv.AppendInt(nil, int64(v.session.Since), 10), domain.MaxSessionSeconds); err != nil {
		return err
	}
	v.EndSession()
	return v.Leave("signin?why=out")
}

func (v *visit) signOutEverywhere() error {
	if err := v.API.SignOutKey(v.Ctx(), v.Caller); err != nil {
		return err
	}
	v.EndSession()
	return v.Leave("signin?why=everywhere")
}
