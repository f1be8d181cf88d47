package account

import (
	"net/http"
	"strings"

	"payledger/domain"
	"payledger/httpapi/conns"
)

func (h *handler) sessionPages() []page {
	return []page{
		{method: "GET", path: "signin", open: true, serve: (*visit).showSignIn},
		{method: "POST", path: "signin", open: true, serve: (*visit).signIn},
		{method: "GET", path: "session", serve: (*visit).showSession},
		{method: "POST", path: "signout", serve: (*visit).signOut},
		{method: "POST", path: "signout-everywhere", serve: (*visit).signOutEverywhere},
	}
}

// signInPage is what signin.html is filled with.
type signInPage struct {
	pageData
	Project, Next string
}

func (v *visit) signInPage() signInPage {
	return signInPage{pageData: v.pageData(v.locale.T("signin.title"))}
}

func (v *visit) showSignIn() error {
	next := v.query("next")
	if !v.ours(next) {
		next = ""
	}
	if v.signedIn() {
		if next == "" {
			next = v.start()
		}
		return v.leave(next)
	}
	page := v.signInPage()
	page.Next = next
	switch v.query("why") {
	case "out":
		page.Notice = &notice{"good", v.locale.T("signin.out")}
	case "everywhere":
		page.Notice = &notice{"good", v.locale.T("signin.everywhere")}
	case "ended":
		page.Notice = &notice{"warn", v.locale.T("signin.ended")}
	}
	return v.render(http.StatusOK, "signin.html", page)
}

// signIn takes project and key. The key is never shown again, not even in the
// form that is answered to a wrong one.
func (v *visit) signIn() error {
	project, key := strings.TrimSpace(v.value("project")), strings.TrimSpace(v.value("key"))
	if p, k, ok := strings.Cut(project, ":"); ok && key == "" { // both as they stand in the header of the API
		project, key = p, k
	}
	caller, err := v.API.SignIn(v.ctx(), conns.Peer(v.r), project, key)
	if err == nil {
		if err := v.startSession(caller); err != nil {
			return err
		}
		next := v.value("next")
		if !v.ours(next) {
			next = v.start()
		}
		return v.leave(next)
	}
	p := v.x.Problem(err)
	page := v.signInPage()
	page.Project, page.Next = project, v.value("next")
	if !v.ours(page.Next) {
		page.Next = ""
	}
	text := problemText(v.locale, p)
	switch p.Code {
	case domain.Unauthorized:
		text = v.locale.T("signin.wrong")
	case domain.RateLimited:
		text = v.locale.T("signin.slow", "Seconds", p.Header.Get("Retry-After"))
	}
	v.retryAfter(p)
	page.Alert = &notice{"bad", text}
	return v.render(p.Status, "signin.html", page)
}

// sessionPage is what session.html is filled with.
type sessionPage struct {
	pageData
	Since, Until domain.Instant
}

func (v *visit) showSession() error {
	page := sessionPage{
		pageData: v.pageData(v.locale.T("session.title")),
		Until:    domain.InstantOf(v.sessions.Deadline(v.r.Context())),
	}
	if err := page.Since.UnmarshalText([]byte(v.sessions.GetString(v.r.Context(), sinceValue))); err != nil {
		return err
	}
	return v.render(http.StatusOK, "session.html", page)
}

func (v *visit) signOut() error {
	token := v.sessions.Token(v.r.Context())
	v.streams.end(func(s *stream) bool { return s.token == token })
	return v.signedOut("out")
}

func (v *visit) signOutEverywhere() error {
	if err := v.File.EndAll(v.session); err != nil {
		return err
	}
	v.streams.end(func(s *stream) bool { return s.session == v.session })
	return v.signedOut("everywhere")
}

func (v *visit) signedOut(why string) error {
	v.endSession()
	return v.leave("signin?why=" + why)
}
