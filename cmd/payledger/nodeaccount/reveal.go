package nodeaccount

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/httpapi/account/store"
)

// revealKind is that of the questions for secrets that wait to be shown.
const revealKind = "reveal"

// revealTime is how long another node is asked for a secret.
const revealTime = 2 * time.Second

// wanted asks for a secret, in JSON.
type wanted struct {
	Name string        `json:"name"`
	Of   store.Session `json:"of"`
}

// Take implements store.Store. The secret may be in the memory of another node.
func (s *Store) Take(name string, of store.Session, now time.Time) (r store.Reveal, ok bool) {
	if r, ok = s.File.Take(name, of, now); ok {
		return r, true
	}
	question, err := json.Marshal(wanted{name, of})
	if err != nil {
		return r, false
	}
	for _, peer := range s.node.Peers() {
		if r, ok = s.takeFrom(peer.Name, question); ok {
			return r, true
		}
	}
	return r, false
}

func (s *Store) takeFrom(peer string, question []byte) (r store.Reveal, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), revealTime)
	defer cancel()
	b, err := s.node.Ask(ctx, peer, revealKind, question)
	return r, err == nil && json.Unmarshal(b, &r) == nil && r.Secret != ""
}

// giveAway answers another node. It is null if the secret is not here.
func (s *Store) giveAway(_ context.Context, b []byte) []byte {
	var w wanted
	err := json.Unmarshal(b, &w)
	if err == nil {
		var found *store.Reveal
		if r, ok := s.File.Take(w.Name, w.Of, time.Now()); ok {
			found = &r
		}
		b, err = json.Marshal(found)
	}
	if err != nil {
		s.node.Report(fmt.Errorf("a question for a secret: %w", err))
		return nil
	}
	return b
}
