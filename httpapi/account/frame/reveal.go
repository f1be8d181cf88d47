package frame

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"payledger/httpapi/account/store"
)

// revealFor is how long a secret that was made waits to be shown.
const revealFor = 10 * time.Minute

// Reveal is a secret that is shown once, on a page of its own, so that neither
// a second press of the button nor a reload of the page makes another.
type Reveal struct {
	of     store.Session
	Kind   string // of the texts: secret.<kind>.title and so on
	Name   string // the id of what the secret belongs to
	Secret string
	Path   string // where to go on
	until  time.Time
}

// reveals are the secrets that wait to be shown. They are in memory only.
type reveals struct {
	mu   sync.Mutex
	kept map[string]Reveal
}

func (h *handler) revealPages() []Route {
	return []Route{{Method: "GET", Path: "secrets/{secret}", Serve: (*Visit).showSecret}}
}

// leaveTo shows a secret next.
func (v *Visit) LeaveToSecret(s Reveal) error {
	s.of, s.until = v.session, v.Now().Add(revealFor)
	name := rand.Text()
	v.reveals.mu.Lock()
	if v.reveals.kept == nil {
		v.reveals.kept = make(map[string]Reveal)
	}
	for other, r := range v.reveals.kept {
		if v.Now().After(r.until) {
			delete(v.reveals.kept, other)
		}
	}
	v.reveals.kept[name] = s
	v.reveals.mu.Unlock()
	return v.Leave("secrets/" + name)
}

// take answers a secret of the session and forgets it.
func (s *reveals) take(name string, as store.Session, now time.Time) (Reveal, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.kept[name]
	if !ok || r.of != as || now.After(r.until) {
		return Reveal{}, false
	}
	delete(s.kept, name)
	return r, true
}

// secretPage is what secret.html is filled with.
type secretPage struct {
	PageData
	Kind, Name, Secret, Path string
}

func (v *Visit) showSecret() error {
	if v.Request.Method == http.MethodHead {
		return &Failure{Status: http.StatusMethodNotAllowed, Why: "method"}
	}
	r, ok := v.reveals.take(v.Vars["secret"], v.session, v.Now())
	if !ok {
		return &Failure{Status: http.StatusGone, Why: "shown"}
	}
	p := secretPage{PageData: v.PageData(v.Locale.T("secret." + r.Kind + ".title")), Kind: r.Kind, Name: r.Name, Secret: r.Secret, Path: r.Path}
	p.Switch = false // following it would show nothing any more
	return v.Render(http.StatusOK, "secret.html", p)
}
