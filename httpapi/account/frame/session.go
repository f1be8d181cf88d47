package frame

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/account/store"
	"payledger/httpapi/merchant"
)

// touchEvery is how often it is written that a session is in use. A session may so
// end this much before the project's limit without use.
const touchEvery = time.Minute

// What a session holds.
const (
	projectValue    = "project"
	keyValue        = "key"
	generationValue = "generation"
	formsValue      = "forms" // key of the tokens of forms
	noticeValue     = "notice"
	sinceValue      = "since"
	seenValue       = "seen" // when it was in use, give or take touchEvery
)

// Who is whom a page is shown to.
type Who struct{ merchant.Caller }

// May reports whether the session's key has a scope.
func (w Who) May(s projects.Scope) bool { return w.Key.Has(s) }

// MayAll reports whether the session's key has all of the scopes, as it must
// to revoke a key that has them.
func (w Who) MayAll(scopes []projects.Scope) bool {
	return !slices.ContainsFunc(scopes, func(s projects.Scope) bool { return !w.May(s) })
}

func newSessions(kept store.Store, secure bool) *scs.SessionManager {
	// scs.New would begin with a store of its own, and a goroutine that tidies
	// it for ever. Sessions end by their project's limits, which may change meanwhile:
	// scs's own limit is the longest there can be.
	s := &scs.SessionManager{
		Store: sessionStore{kept}, Codec: valuesCodec{}, HashTokenInStore: true, Lifetime: domain.MaxSessionSeconds * time.Second,
		Cookie: scs.SessionCookie{
			Name: "payledger_account", Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
		},
	}
	if secure {
		s.Cookie.Name = "__Host-" + s.Cookie.Name // no other host and no plain http can set it
	}
	return s
}

// sessionStore keeps the sessions of scs.
type sessionStore struct{ store.Store }

// Commit implements scs.Store.
func (s sessionStore) Commit(token string, b []byte, end time.Time) error {
	_, values, err := valuesCodec{}.Decode(b)
	if err != nil {
		return err
	}
	project, _ := values[projectValue].(string)
	return s.Store.Commit(token, project, b, end)
}

// valuesCodec writes the same values as the same bytes, so that nothing is
// written that is there already.
type valuesCodec struct{}

type storedValues struct {
	Deadline time.Time         `json:"deadline"`
	Values   map[string]string `json:"values"`
}

// Encode implements scs.Codec. Values are strings.
func (valuesCodec) Encode(deadline time.Time, values map[string]any) ([]byte, error) {
	out := storedValues{Deadline: deadline, Values: make(map[string]string, len(values))}
	for name, v := range values {
		text, ok := v.(string)
		if !ok {
			return nil, errors.New("account: a value of a session is no string: " + name)
		}
		out.Values[name] = text
	}
	return json.Marshal(out, json.Deterministic(true))
}

// Decode implements scs.Codec.
func (valuesCodec) Decode(b []byte) (time.Time, map[string]any, error) {
	var in storedValues
	if err := json.Unmarshal(b, &in); err != nil {
		return time.Time{}, nil, err
	}
	values := make(map[string]any, len(in.Values))
	for name, text := range in.Values {
		values[name] = text
	}
	return in.Deadline, values, nil
}

// loadSession finds the session of a request and whom it acts for. One that
// is over is none.
func (v *Visit) loadSession() error {
	token := ""
	if c, err := v.Request.Cookie(v.sessions.Cookie.Name); err == nil {
		token = c.Value
	}
	ctx, err := v.sessions.Load(v.Request.Context(), token)
	if err != nil {
		return err
	}
	v.Request = v.Request.WithContext(ctx)
	s := store.Session{Project: v.sessions.GetString(ctx, projectValue), KeyID: v.sessions.GetString(ctx, keyValue)}
	if s.Project == "" {
		v.ended = token != ""
		return nil
	}
	generation, err := v.Kept.Generation(s)
	if err != nil {
		return err
	}
	if v.sessions.GetString(ctx, generationValue) != strconv.FormatUint(generation, 10) {
		v.DropSession()
		return nil
	}
	v.session = s
	began := v.instant(sinceValue)
	v.Caller, err = v.API.Resume(ctx, s.Project, s.KeyID, began)
	limits := v.API.Limits(v.Caller.Project)
	v.until = began.Time().Add(time.Duration(limits.SessionMaxSeconds) * time.Second)
	idle := v.instant(seenValue).Time().Add(time.Duration(limits.SessionIdleSeconds) * time.Second)
	if now := v.Now(); v.over(err) || err == nil && (now.After(v.until) || now.After(idle)) {
		v.DropSession()
		return nil
	}
	if err != nil {
		return err
	}
	v.Caller.Trace = v.X.Trace
	v.X.Project, v.X.Key = v.Caller.Project, v.Caller.Key
	v.Locale = v.Locale.In(v.Caller.Calendar().Zone())
	return nil
}

// instant is a time that the session holds, 0 if it does not.
func (v *Visit) instant(value string) (at domain.Instant) {
	_ = at.UnmarshalText([]byte(v.sessions.GetString(v.Request.Context(), value)))
	return at
}

// over reports whether an error says that the session's key is of no use any
// more.
func (v *Visit) over(err error) bool {
	if err == nil {
		return false
	}
	p := v.X.Problem(err)
	return p.Code == domain.Unauthorized || p.Code == domain.ProjectDisabledCode
}

// SaveSession writes the session, which begins to be idle anew. It comes
// before the answer.
func (v *Visit) SaveSession() error {
	if !v.signedIn() {
		return nil
	}
	if now := domain.InstantOf(v.Now()); now >= v.instant(seenValue).Add(touchEvery) {
		v.sessions.Put(v.Request.Context(), seenValue, now.String())
	}
	_, _, err := v.sessions.Commit(v.Request.Context())
	return err
}

// EndSession deletes the session, and then forgets it here and in the browser. After an
// error it goes on.
func (v *Visit) EndSession() error {
	if err := v.sessions.Destroy(v.Request.Context()); err != nil {
		return err
	}
	v.forgetSession()
	return nil
}

// DropSession forgets a session that is good for nothing any more, even where it cannot
// be deleted.
func (v *Visit) DropSession() {
	if err := v.EndSession(); err != nil {
		v.Log.Warn().Err(err).Str("request_id", v.X.ID).Msg("a session of the account could not be deleted")
		v.forgetSession()
	}
}

func (v *Visit) forgetSession() {
	v.sessions.WriteSessionCookie(v.Request.Context(), v.X, "", time.Time{})
	v.X.Header().Set("Cache-Control", "no-store") // scs adds to it
	v.session, v.Caller, v.ended = store.Session{}, merchant.Caller{}, true
}

// startSession makes the session of somebody who has signed in.
func (v *Visit) startSession(c merchant.Caller) error {
	s := store.Session{Project: c.Project.ID, KeyID: c.Key.ID}
	generation, err := v.Kept.Generation(s)
	if err != nil {
		return err
	}
	if err := v.Kept.Clean(v.Now()); err != nil {
		return err
	}
	ctx := v.Request.Context()
	if err := v.sessions.RenewToken(ctx); err != nil {
		return err
	}
	v.sessions.Put(ctx, projectValue, s.Project)
	v.sessions.Put(ctx, keyValue, s.KeyID)
	v.sessions.Put(ctx, generationValue, strconv.FormatUint(generation, 10))
	v.sessions.Put(ctx, formsValue, rand.Text())
	now := domain.InstantOf(v.Now()).String()
	v.sessions.Put(ctx, sinceValue, now)
	v.sessions.Put(ctx, seenValue, now)
	token, end, err := v.sessions.Commit(ctx)
	if err != nil {
		return err
	}
	v.sessions.WriteSessionCookie(ctx, v.X, token, end)
	v.X.Header().Set("Cache-Control", "no-store") // scs adds to it
	v.session = s
	v.X.Project, v.X.Key = c.Project, c.Key
	return nil
}

// PutNotice keeps something to be said on the next page.
func (v *Visit) PutNotice(tone, text string) {
	v.sessions.Put(v.Request.Context(), noticeValue, tone+"\n"+text)
}

func (v *Visit) popNotice() *Notice {
	kept := v.sessions.PopString(v.Request.Context(), noticeValue)
	if tone, text, ok := strings.Cut(kept, "\n"); ok {
		return &Notice{Tone: tone, Text: text}
	}
	return nil
}

// toSignIn leads somebody who is not signed in to where that can be done, and
// from there back.
func (v *Visit) toSignIn() error {
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
	v.X.Header().Set("Location", v.to(to))
	v.X.WriteHeader(http.StatusSeeOther)
	return nil
}

// ours reports whether a path, with or without a query, is that of a page of
// the account that somebody can be led to.
func (v *Visit) ours(path string) bool {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || strings.ContainsAny(path, "\\\r\n") {
		return false
	}
	return slices.ContainsFunc(v.table, func(p Route) bool {
		_, ok := match(p.Path, u.EscapedPath())
		return ok && p.Method == http.MethodGet && !p.open
	})
}
