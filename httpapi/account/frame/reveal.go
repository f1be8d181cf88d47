package frame

import (
	"crypto/rand"
	"net/http"
	"time"

	"payledger/httpapi/account/store"
)

// revealFor is how long a secret that was made waits to be shown.
const revealFor = 10 * time.Minute

// Reveal is a secret that is shown once.
type Reveal = store.Reveal

func (h *handler) revealPages() []Route {
	return []Route{{Method: "GET", Path: "secrets/{secret}", Serve: (*Visit).showSecret}}
}

// LeaveToSecret shows a secret next.
func (v *Visit) LeaveToSecret(s Reveal) error {
	s.Of, s.Until = v.of(), v.Now().Add(revealFor)
	name := rand.Text()
	v.Kept.Keep(name, s, v.Now())
	return v.Leave("secrets/" + name)
}

// of names the key that somebody has signed in with.
func (v *Visit) of() store.Session {
	return store.Session{Project: v.session.Project, KeyID: v.session.KeyID}
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
	r, ok := v.Kept.Take(v.Vars["secret"], v.of(), v.Now())
	if !ok {
		return &Failure{Status: http.StatusGone, Why: "shown"}
	}
	p := secretPage{PageData: v.PageData(v.Locale.T("secret." + r.Kind + ".title")), Kind: r.Kind, Name: r.Name, Secret: r.Secret, Path: r.Path}
	p.Switch = false // following it would show nothing any more
	return v.Render(http.StatusOK, "secret.html", p)
}
