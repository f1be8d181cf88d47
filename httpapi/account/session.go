package account

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/merchant"
)

// touchEvery is how often a cookie is sent that says that its session is in use. A
// session may so end this much before the project's limit without use.
const touchEvery = time.Minute

// who is whom a page is shown to.
type who struct{ merchant.Caller }

// May reports whether the session's key has a scope.
func (w who) May(s projects.Scope) bool { return w.Key.Has(s) }

// MayAll reports whether the session's key has all of the scopes, as it must
// to revoke a key that has them.
func (w who) MayAll(scopes []projects.Scope) bool {
	return !slices.ContainsFunc(scopes, func(s projects.Scope) bool { return !w.May(s) })
}

// session is the content of the cookie of a signed-in user.
type session struct {
	merchant.Session
	seen domain.Instant // when it was in use, give or take touchEvery
}

// sessionText is how the cookie holds a session: project, key, since, seen, sign-outs.
const sessionText = "%s %s %d %d %d"

// loadSession finds the session of a request and whom it acts for. An expired one is ignored.
func (v *visit) loadSession() error {
	content, sent := v.readCookie(sessionCookie)
	v.ended = sent
	var s session
	if _, err := fmt.Sscanf(string(content), sessionText, &s.Project, &s.KeyID, &s.Since, &s.seen, &s.SignOuts); err != nil {
		return nil //nolint:nilerr // a cookie that is not ours is no session
	}
	c, err := v.API.Resume(v.Request.Context(), s.Session)
	limits := v.API.Limits(c.Project)
	v.until = s.Since.Time().Add(time.Duration(limits.SessionMaxSeconds) * time.Second)
	idle := s.seen.Time().Add(time.Duration(limits.SessionIdleSeconds) * time.Second)
	if now := v.config.Now(); v.over(err) || err == nil && (now.After(v.until) || now.After(idle)) || s.Since <= v.signedOut() {
		v.EndSession()
		return nil
	}
	if err != nil {
		return err
	}
	v.session, v.ended, v.Caller = s, false, c
	v.Caller.Trace = v.X.Trace
	v.X.Project, v.X.Key = c.Project, c.Key
	v.Locale = v.Locale.In(c.Calendar().Zone())
	return nil
}

// signedOut is the Since of the session that was signed out in this browser last, 0 if
// that is not known. Its cookie may come back: the answer to a request from before may
// arrive, and set it, after the answer that cleared it.
func (v *visit) signedOut() (since domain.Instant) {
	content, _ := v.readCookie(outCookie)
	if n, err := strconv.ParseInt(string(content), 10, 64); err == nil {
		since = domain.Instant(n)
	}
	return since
}

// over reports whether an error says that the session's key is of no use any
// more.
func (v *visit) over(err error) bool {
	return err != nil && slices.Contains([]domain.Code{domain.Unauthorized, domain.ProjectDisabledCode}, v.X.Problem(err).Code)
}

// SaveSession renews the cookie, so that the idle time of the session begins again, unless a script
// asks, as an open page does by itself. It is called before the answer is written.
func (v *visit) SaveSession() error {
	now := domain.InstantOf(v.config.Now())
	if !v.signedIn() || now < v.session.seen.Add(touchEvery) || v.scripted() {
		return nil
	}
	v.session.seen = now
	return v.writeSession()
}

// scripted reports whether a script asks, as an open page does by itself. On plain http only the
// script says so.
func (v *visit) scripted() bool {
	mode := v.Request.Header.Get("Sec-Fetch-Mode")
	return mode != "" && mode != "navigate" || v.Request.Header.Get("X-Requested-With") != ""
}

func (v *visit) writeSession() error {
	s := v.session
	return v.setCookie(sessionCookie, fmt.Appendf(nil, sessionText, s.Project, s.KeyID, s.Since, s.seen, s.SignOuts), 0)
}

// EndSession has the browser forget the session.
func (v *visit) EndSession() {
	v.clearCookie(sessionCookie)
	v.session, v.Caller, v.ended = session{}, merchant.Caller{}, true
}

// startSession creates the session of a user who has signed in.
func (v *visit) startSession(c merchant.Caller) error {
	now := domain.InstantOf(v.config.Now())
	since := max(now, v.signedOut()+1)
	v.session = session{merchant.Session{Project: c.Project.ID, KeyID: c.Key.ID, Since: since, SignOuts: c.Key.SignOuts}, now}
	v.X.Project, v.X.Key = c.Project, c.Key
	v.popNotice() // of the session before
	return v.writeSession()
}

// PutNotice sets the notice of the page that Leave redirects to.
func (v *visit) PutNotice(tone, text string) {
	// One that is too long for a cookie is left out: what was done is done.
	_ = v.setCookie(noticeCookie, []byte(tone+"\n"+text), noticeAge)
}

// popNotice returns the notice once; a script leaves it to the page that it is meant for.
func (v *visit) popNotice() *notice {
	if v.scripted() {
		return nil
	}
	content, sent := v.readCookie(noticeCookie)
	if sent {
		v.clearCookie(noticeCookie)
	}
	if tone, text, ok := strings.Cut(string(content), "\n"); ok {
		return &notice{Tone: tone, Text: text}
	}
	return nil
}

// toSignIn redirects a visitor to the page to sign in, and from there back.
func (v *visit) toSignIn() error {
	q := url.Values{}
	if v.Request.Method == http.MethodGet || v.Request.Method == http.MethodHead {
		next := strings.TrimPrefix(strings.TrimPrefix(v.Request.URL.EscapedPath(), Path), "/")
		if v.Request.URL.RawQuery != "" {
			next += "?" + v.Request.URL.RawQuery
		}
		if next != "" && v.ours(next) {
			q.Set("next", next)
		}
	}
	if v.ended || v.Request.Method == http.MethodPost {
		q.Set("why", "ended")
	}
	to := "signin"
	if len(q) > 0 {
		to += "?" + q.Encode()
	}
	return v.Leave(to)
}

// ours reports whether a path, with or without a query, is that of a page of the account, so that
// it can be redirected to.
func (v *visit) ours(path string) bool {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || strings.ContainsAny(path, "\\\r\n") {
		return false
	}
	return slices.ContainsFunc(v.table, func(p page) bool {
		_, ok := match(p.path, u.EscapedPath())
		return ok && p.method == http.MethodGet && !p.open
	})
}
