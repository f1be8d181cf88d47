package store

import (
	"sync"
	"time"

	"payledger/domain"
)

// Store keeps what the account needs from one request to the next. Safe for concurrent use.
type Store interface {
	// Clean may remove what ended before now.
	Clean(now time.Time) error

	// UseForm uses up a form's token, which nobody asks for after end. fresh is
	// false when it was used before; path is then where it led to, "" if that is
	// not known.
	UseForm(token string, end time.Time) (fresh bool, path string, err error)

	// FormLed notes where a used form led to.
	FormLed(token, path string) error

	// Keep keeps a secret, in memory only, until it is taken or its time is over.
	Keep(name string, r Reveal, now time.Time)

	// Take answers a secret of a session and forgets it.
	Take(name string, of Session, now time.Time) (Reveal, bool)

	// Use notes that a key was used. It is called for every request, and waits for
	// nothing. LastUse is when that was last; false when that is not known.
	Use(project, key string, at time.Time)
	LastUse(project, key string) (domain.Instant, bool)
}

// Reveal is a secret that is shown once, on a page of its own, so that neither
// a second press of the button nor a reload of the page makes another.
type Reveal struct {
	Of     Session
	Kind   string // of the texts: secret.<kind>.title and so on
	Name   string // the id of what the secret belongs to
	Secret string
	Path   string // where to go on
	Until  time.Time
}

// reveals are the secrets that wait to be shown.
type reveals struct {
	waiting sync.Mutex // guards kept
	kept    map[string]Reveal
}

// Keep implements Store.
func (s *reveals) Keep(name string, r Reveal, now time.Time) {
	s.waiting.Lock()
	defer s.waiting.Unlock()
	if s.kept == nil {
		s.kept = make(map[string]Reveal)
	}
	for other, r := range s.kept {
		if now.After(r.Until) {
			delete(s.kept, other)
		}
	}
	s.kept[name] = r
}

// Take implements Store.
func (s *reveals) Take(name string, of Session, now time.Time) (Reveal, bool) {
	s.waiting.Lock()
	defer s.waiting.Unlock()
	r, ok := s.kept[name]
	if !ok || r.Of != of || now.After(r.Until) {
		return Reveal{}, false
	}
	delete(s.kept, name)
	return r, true
}
