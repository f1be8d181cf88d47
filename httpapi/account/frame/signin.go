package frame

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"payledger/domain"
)

// signInPage is what signin.html is filled with.
type signInPage struct {
	PageData
	Project, Next string
}

func (v *Visit) signInPage() signInPage {
	return signInPage{PageData: v.PageData(v.Locale.T("signin.title"))}
}

func (v *Visit) showSignIn() error {
	next := v.Query("next")
	if !v.ours(next) {
		next = ""
	}
	if v.signedIn() {
		if next == "" {
			next = v.start()
		}
		return v.Leave(next)
	}
	page := v.signInPage()
	page.Next = next
	switch v.Query("why") {
	case "out":
		page.Notice = &Notice{"good", v.Locale.T("signin.out")}
	case "everywhere":
		page.Notice = &Notice{"good", v.Locale.T("signin.everywhere")}
	case "ended":
		page.Notice = &Notice{"warn", v.Locale.T("signin.ended")}
	}
	return v.Render(http.StatusOK, "signin.html", page)
}

// signIn takes project and key. The key is never shown again, not even in the
// form that is answered to a wrong one.
func (v *Visit) signIn() error {
	project, key := strings.TrimSpace(v.Value("project")), strings.TrimSpace(v.Value("key"))
	if p, k, ok := strings.Cut(project, ":"); ok && key == "" { // both as in the header of the API
		project, key = p, k
	}
	caller, err := v.API.SignIn(v.Ctx(), v.Request.RemoteAddr, project, key, nil)
	if err == nil {
		if err := v.startSession(caller); err != nil {
			return err
		}
		next := v.Value("next")
		if !v.ours(next) {
			next = v.start()
		}
		return v.Leave(next)
	}
	p := v.X.Problem(err)
	page := v.signInPage()
	page.Project, page.Next = project, v.Value("next")
	if !v.ours(page.Next) {
		page.Next = ""
	}
	text := ProblemText(v.Locale, p)
	switch p.Code {
	case domain.Unauthorized:
		text = v.Locale.T("signin.wrong")
	case domain.RateLimited:
		text = v.Locale.T("signin.slow", "Seconds", p.Header.Get("Retry-After"))
	}
	v.retryAfter(p)
	page.Alert = &Notice{"bad", text}
	return v.Render(p.Status, "signin.html", page)
}

// sessionPage is what session.html is filled with.
type sessionPage struct {
	PageData
	Since, Until domain.Instant
	Idle         string // how long it may be without use
}

func (v *Visit) showSession() error {
	return v.Render(http.StatusOK, "session.html", sessionPage{
		PageData: v.PageData(v.Locale.T("session.title")), Since: v.session.Since, Until: domain.InstantOf(v.until),
		Idle: v.Locale.Left(time.Duration(v.API.Limits(v.Caller.Project).SessionIdleSeconds) * time.Second),
	})
}

// signOut ends the session in this browser. A copy of its cookie stays valid until it was idle for
// too long; signOutEverywhere ends it too.
func (v *Visit) signOut() error {
	if err := v.setCookie(outCookie, strconv.AppendInt(nil, int64(v.session.Since), 10), domain.MaxSessionSeconds); err != nil {
		return err
	}
	v.EndSession()
	return v.Leave("signin?why=out")
}

func (v *Visit) signOutEverywhere() error {
	if err := v.API.SignOutKey(v.Ctx(), v.Caller); err != nil {
		return err
	}
	v.EndSession()
	return v.Leave("signin?why=everywhere")
}
