package account

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"payledger/httpapi/account/store"
)

// revealFor is how long a secret that was made waits to be shown.
const revealFor = 10 * time.Minute

// reveal is a secret that is shown once, on a page of its own, so that neither
// a second press of the button nor a reload of the page makes another.
type reveal struct {
	of     store.Session
	kind   string // of words: secret.<kind>.title and so on
	name   string // the id of what the secret belongs to
	secret string
	path   string // where to go on
	until  time.Time
}

// reveals are the secrets that wait to be shown. They are in memory only.
type reveals struct {
	mu   sync.Mutex
	kept map[string]reveal
}

func (h *handler) revealPages() []page {
	return []page{{method: "GET", path: "secrets/{secret}", serve: (*visit).showSecret}}
}

// leaveTo shows a secret next.
func (v *visit) leaveToSecret(s reveal) error {
	s.of, s.until = v.session, v.Now().Add(revealFor)
	name := rand.Text()
	v.reveals.mu.Lock()
	if v.reveals.kept == nil {
		v.reveals.kept = make(map[string]reveal)
	}
	for other, r := range v.reveals.kept {
		if v.Now().After(r.until) {
			delete(v.reveals.kept, other)
		}
	}
	v.reveals.kept[name] = s
	v.reveals.mu.Unlock()
	return v.leave("secrets/" + name)
}

// take answers a secret of the session and forgets it.
func (s *reveals) take(name string, as store.Session, now time.Time) (reveal, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.kept[name]
	if !ok || r.of != as || now.After(r.until) {
		return reveal{}, false
	}
	delete(s.kept, name)
	return r, true
}

// secretPage is what secret.html is filled with.
type secretPage struct {
	pageData
	Kind, Name, Secret, Path string
}

func (v *visit) showSecret() error {
	if v.r.Method == http.MethodHead {
		return &failure{status: http.StatusMethodNotAllowed, why: "method"}
	}
	r, ok := v.reveals.take(v.vars["secret"], v.session, v.Now())
	if !ok {
		return &failure{status: http.StatusGone, why: "shown"}
	}
	p := secretPage{pageData: v.pageData(v.locale.T("secret." + r.kind + ".title")), Kind: r.kind, Name: r.name, Secret: r.secret, Path: r.path}
	p.Switch = false // following it would show nothing any more
	return v.render(http.StatusOK, "secret.html", p)
}
