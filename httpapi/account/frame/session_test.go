package frame

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/httpapi/account/store"
	"payledger/httpapi/checkout"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
	"payledger/projections"
)

// front is the account of a project with one key.
type front struct {
	t       *testing.T
	path    string
	file    *store.File
	api     *merchant.API
	project string
	key     wire.Key
	handler *handler
	server  http.Handler
	cookie  string
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{t: t, path: filepath.Join(t.TempDir(), "account.db"), project: "prj_1", api: newAPI(t)}
	if _, err := f.api.ChangeProject(t.Context(), f.project, eventstore.Cause{}, projects.RegisterProject{Name: "Tea", Settings: domain.DefaultSettings()}, true); err != nil {
		t.Fatal(err)
	}
	var err error
	if _, f.key, err = f.api.NewKey(t.Context(), f.project, eventstore.Cause{}, "", []projects.Scope{projects.Read}); err != nil {
		t.Fatal(err)
	}
	f.start()
	t.Cleanup(func() { _ = f.file.Close() })
	return f
}

// testPages are two pages without content, with the templates and words of all.
func testPages() Pages {
	nothing := func(*Visit) error { return nil }
	return Pages{Files: os.DirFS(".."), Routes: []Route{
		{Method: http.MethodGet, Path: "payments", Serve: nothing}, {Method: http.MethodGet, Path: "payments/{id}", Serve: nothing},
	}}
}

// newAPI makes the operations over an empty log in memory.
func newAPI(t *testing.T) *merchant.API {
	t.Helper()
	links, err := checkout.NewLinks(map[int][32]byte{1: {1}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	ledger := eventstore.Ledger{Store: memory.New(), Codec: eventstore.NewCodec()}
	views, err := projections.Open(t.Context(), projections.Config{
		Path: filepath.Join(t.TempDir(), "projections.db"), Store: ledger.Store, Codec: ledger.Codec, LogID: domain.ID{1},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var following sync.WaitGroup
	following.Go(func() { _ = views.Run(ctx) })
	t.Cleanup(func() {
		stop()
		following.Wait()
		_ = views.Close()
		_ = ledger.Store.Close()
	})
	api, err := merchant.New(merchant.Config{
		Ledger: ledger, Views: views, IDs: domain.NewIDs(time.Now, rand.Reader, domain.ID{}), Links: links, PublicURL: "http://pay.example.com",
	})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// start opens the file and makes the handler, as the start of a program does.
func (f *front) start() {
	f.t.Helper()
	var err error
	if f.file, err = store.Open(f.path, zerolog.Nop()); err != nil {
		f.t.Fatal(err)
	}
	f.handler, err = newHandler(Config{API: f.api, Kept: f.file, Now: time.Now, PublicURL: "http://pay.example.com", Log: zerolog.Nop()}, testPages())
	if err != nil {
		f.t.Fatal(err)
	}
	e, err := edge.New(edge.Config{Now: time.Now, Entropy: rand.Reader, Log: zerolog.Nop()})
	if err != nil {
		f.t.Fatal(err)
	}
	pages := edge.Pages("account", f.handler.serve)
	f.server = e.Wrap(func(x *edge.Exchange) { pages.ServeHTTP(x, x.Request) })
}

func (f *front) restart() {
	f.t.Helper()
	if err := f.file.Close(); err != nil {
		f.t.Fatal(err)
	}
	f.start()
}

// credentials are those of the key.
func (f *front) credentials() url.Values {
	return url.Values{"project": {f.project}, "key": {f.key.APIKey}}
}

func (f *front) do(r *http.Request) *httptest.ResponseRecorder {
	if f.cookie != "" {
		r.AddCookie(&http.Cookie{Name: "payledger_account", Value: f.cookie})
	}
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.Name == "payledger_account" {
			f.cookie = c.Value
		}
	}
	return w
}

func (f *front) get(path string) *httptest.ResponseRecorder {
	return f.do(httptest.NewRequest(http.MethodGet, "http://pay.example.com/account/"+path, nil))
}

func (f *front) post(path string, fields url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://pay.example.com/account/"+path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://pay.example.com")
	return f.do(r)
}

func (f *front) signIn() {
	f.t.Helper()
	if w := f.post("signin", f.credentials()); w.Code != http.StatusSeeOther || f.cookie == "" {
		f.t.Fatalf("signing in: %d %s", w.Code, w.Body)
	}
}

// in reports whether the session is alive.
func (f *front) in() bool {
	f.t.Helper()
	switch w := f.get("session"); w.Code {
	case http.StatusOK:
		return true
	case http.StatusSeeOther:
		return false
	default:
		f.t.Fatalf("answer %d %s", w.Code, w.Body)
		return false
	}
}

func TestLimitsOfASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t)
		const idleLimit, lifeLimit = 30 * time.Minute, 12 * time.Hour
		f.signIn()
		time.Sleep(idleLimit - touchEvery - time.Second)
		if !f.in() {
			t.Error("the session ended before it was idle for long")
		}
		time.Sleep(idleLimit + time.Second)
		if f.in() {
			t.Error("an idle session goes on")
		}
		f.cookie = ""
		f.signIn()
		began := time.Now()
		for time.Since(began) < lifeLimit-20*time.Minute {
			time.Sleep(20 * time.Minute)
			if !f.in() {
				t.Fatalf("a session in use ended after %v", time.Since(began))
			}
		}
		time.Sleep(20*time.Minute + time.Second)
		if f.in() {
			t.Error("a session goes on for ever while it is used")
		}
	})
}

// A project's own limits and its signing out end the sessions that have begun.
func TestLimitsChangeUnderASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t)
		change := func(idle, most int) {
			t.Helper()
			settings := domain.DefaultSettings()
			settings.SessionIdleSeconds, settings.SessionMaxSeconds = &idle, &most
			if _, err := f.api.ChangeProject(t.Context(), f.project, eventstore.Cause{}, projects.ChangeProject{Name: "Tea", Settings: settings}, false); err != nil {
				t.Fatal(err)
			}
		}
		f.signIn()
		change(7200, 14400)
		time.Sleep(100 * time.Minute)
		if !f.in() {
			t.Error("the session ended before the new limit without use")
		}
		time.Sleep(21 * time.Minute)
		if change(1200, 14400); f.in() {
			t.Error("the session outlives a limit without use that became shorter")
		}
		f.signIn()
		time.Sleep(15 * time.Minute)
		if !f.in() {
			t.Error("the session ended before its limits")
		}
		if change(1200, 600); f.in() {
			t.Error("the session outlives a limit that became shorter")
		}
		change(1200, 14400)
		f.signIn()
		time.Sleep(time.Second)
		if _, err := f.api.SignOutProject(t.Context(), f.project, eventstore.Cause{}); err != nil {
			t.Fatal(err)
		}
		if f.in() {
			t.Error("the session outlives the signing out of its project")
		}
		time.Sleep(time.Second)
		f.signIn()
		if !f.in() {
			t.Error("nobody can sign in any more")
		}
	})
}

func TestASessionSurvivesARestartAndEndsWithItsKey(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.signIn()
	first := f.cookie
	f.restart()
	if !f.in() {
		t.Error("the session did not survive a restart")
	}
	if raw, err := os.ReadFile(f.path); err != nil || bytes.Contains(raw, []byte(first)) || bytes.Contains(raw, []byte(f.key.APIKey)) {
		t.Errorf("the file holds the token or the key (%v)", err)
	}
	if _, err := f.api.ChangeProject(t.Context(), f.project, eventstore.Cause{}, projects.RevokeKey{KeyID: f.key.KeyID}, false); err != nil {
		t.Fatal(err)
	}
	if f.in() {
		t.Error("the session outlives its key")
	}
	if ctx, err := f.handler.sessions.Load(t.Context(), first); err != nil || f.handler.sessions.GetString(ctx, projectValue) != "" {
		t.Errorf("the session of a revoked key is kept (%v)", err)
	}
}

// undeletable is a store that deletes no session while it fails.
type undeletable struct {
	*store.File
	fail error
}

func (u *undeletable) Delete(token string) error {
	if u.fail != nil {
		return u.fail
	}
	return u.File.Delete(token)
}

func TestSigningOutOfASessionThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	kept := &undeletable{File: f.file, fail: errors.New("no disk")}
	f.handler.Kept = kept
	f.handler.sessions.Store = sessionStore{kept}
	signOut := func(path string) *httptest.ResponseRecorder {
		t.Helper()
		_, token, ok := strings.Cut(f.get("session").Body.String(), `name="form" value="`)
		token, _, closed := strings.Cut(token, `"`)
		if !ok || !closed {
			t.Fatal("the page of the session has no form")
		}
		return f.post(path, url.Values{formField: {token}})
	}
	f.signIn()
	cookie, streaming := f.cookie, true
	s := &stream{end: func() { streaming = false }}
	ctx, err := f.handler.sessions.Load(t.Context(), cookie)
	if err != nil {
		t.Fatal(err)
	}
	s.token = f.handler.sessions.Token(ctx)
	f.handler.streams.all = map[*stream]struct{}{s: {}}
	if w := signOut("signout"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if f.cookie != cookie || !streaming || !f.in() {
		t.Error("the session was not deleted, and yet the browser forgot it or a stream ended")
	}
	kept.fail = nil
	if w := signOut("signout"); w.Code != http.StatusSeeOther || f.cookie != "" || streaming {
		t.Errorf("%d, cookie %q, streaming %v", w.Code, f.cookie, streaming)
	}
	if f.cookie = cookie; f.in() {
		t.Error("the session goes on after it was signed out")
	}

	f.signIn()
	cookie, kept.fail = f.cookie, errors.New("no disk")
	if w := signOut("signout-everywhere"); w.Code != http.StatusSeeOther || f.cookie != "" {
		t.Errorf("%d, cookie %q", w.Code, f.cookie)
	}
	if f.cookie = cookie; f.in() {
		t.Error("the session outlives the signing out everywhere")
	}
}

func TestSigningInChangesTheToken(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.cookie = "chosen-by-somebody-else"
	f.signIn()
	if f.cookie == "chosen-by-somebody-else" {
		t.Error("the token is the one that was sent")
	}
	first := f.cookie
	f.post("signin", f.credentials())
	if f.cookie == first {
		t.Error("signing in again kept the token")
	}
	f.cookie = first
	if f.in() {
		t.Error("the token from before still works")
	}
}

func TestNextIsOurs(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	v := &Visit{handler: f.handler}
	for path, want := range map[string]bool{
		"payments": true, "payments?q=a&b=//c": true, "payments/01": true, "session": true, "": v.has(""),
		"signin": false, "signout": false, "//evil": false, "https://evil": false, "/payments": false, "../x": false,
		"payments\r\nX: y": false, `\evil`: false, "javascript:alert(1)": false,
	} {
		if got := v.ours(path); got != want {
			t.Errorf("ours(%q) = %v", path, got)
		}
	}
}

func TestStreamsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	h := &handler{Config: Config{Now: time.Now}}
	h.sessions = newSessions(nil, false)
	open := func(s store.Session) (*Visit, func() bool) {
		ctx, err := h.sessions.Load(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		h.sessions.Put(ctx, projectValue, s.Project)
		v := &Visit{handler: h, Request: httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx), session: s, until: time.Now().Add(time.Hour)}
		stream, done := v.Streaming()
		t.Cleanup(done)
		return v, func() bool { return stream.Err() == nil }
	}
	one, two := store.Session{Project: "prj_1", KeyID: "key_1"}, store.Session{Project: "prj_1", KeyID: "key_2"}
	_, first := open(one)
	_, second := open(one)
	_, other := open(two)
	h.streams.end(func(s *stream) bool { return s.session == one })
	if first() || second() || !other() {
		t.Error(first(), second(), other())
	}
}

// TestAFormCountsOnceAtTheAPIToo: whatever becomes of the file, the API knows
// a form that it has seen.
func TestAFormCountsOnceAtTheAPIToo(t *testing.T) {
	t.Parallel()
	key := func(token string) domain.Digest { return *(&Visit{token: token}).IdempotencyKey() }
	if one := key("a"); key("a") != one || key("b") == one {
		t.Error("the keys of a form differ, or those of two forms do not")
	}
}
