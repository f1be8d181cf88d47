// Package pause keeps which routes the operator has paused: no payment is given to
// such a route, and no attempt to pay begins on it.
//
// That is a file of the data directory, so that neither a restart nor a new
// JetStream resumes a route. It is JSON for a person to read:
//
//	{"version":1,"paused":[{"route":"cards","since":"2026-11-20T10:15:30.000Z","reason":"…"}],"sha256":"…"}
//
// The checksum is that of the bytes of the member "paused". A file that is damaged
// is refused: without it, routes would be resumed that nobody resumed.
package pause

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// Pause is a route that is paused.
type Pause struct {
	Route  string         `json:"route"`
	Since  domain.Instant `json:"since"`
	Reason string         `json:"reason,omitzero"` // the operator's text
}

// Book is the paused routes of a data directory. Safe for concurrent use.
type Book struct {
	name  string
	write func(name string, content []byte) error

	change sync.Mutex // one change at a time
	all    atomic.Pointer[[]Pause]
}

// version is that of the file's form.
const version = 1

type file struct {
	Version int            `json:"version"`
	Paused  jsontext.Value `json:"paused"`
	SHA256  string         `json:"sha256"`
}

// Open reads the file; without one no route is paused. write replaces a file, and
// has synced it when it returns.
func Open(name string, write func(name string, content []byte) error) (*Book, error) {
	b := &Book{name: name, write: write}
	b.all.Store(&[]Pause{})
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	var all []Pause
	if err == nil {
		all, err = parse(content)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; take it from a backup, or delete it and pause the routes again", name, err)
	}
	b.all.Store(&all)
	return b, nil
}

func parse(content []byte) (all []Pause, err error) {
	var f file
	if err := json.Unmarshal(content, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if f.Version != version {
		return nil, fmt.Errorf("its version is %d, want %d", f.Version, version)
	}
	if f.SHA256 != sum(f.Paused) {
		return nil, errors.New("its checksum is wrong")
	}
	err = json.Unmarshal(f.Paused, &all, json.RejectUnknownMembers(true))
	return all, err
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// All are the paused routes by name. The slice must not be changed.
func (b *Book) All() []Pause { return *b.all.Load() }

// Of is the pause of a route; ok is false when it is not paused.
func (b *Book) Of(route string) (p Pause, ok bool) { return of(b.All(), route) }

func of(all []Pause, route string) (p Pause, ok bool) {
	for _, p := range all {
		if p.Route == route {
			return p, true
		}
	}
	return Pause{}, false
}

// Paused reports whether the route is paused.
func (b *Book) Paused(route string) bool {
	_, ok := b.Of(route)
	return ok
}

// Pause pauses a route from now on, kept when it returns. The reason of a route
// that is paused already is replaced unless it is empty.
func (b *Book) Pause(route, reason string, now domain.Instant) (Pause, error) {
	b.change.Lock()
	defer b.change.Unlock()
	p, paused := b.Of(route)
	switch {
	case !paused:
		p = Pause{Route: route, Since: now, Reason: reason}
	case reason == "" || reason == p.Reason:
		return p, nil
	default:
		p.Reason = reason
	}
	return p, b.keep(append(b.without(route), p))
}

// Resume ends the pause of a route; was reports whether there was one.
func (b *Book) Resume(route string) (was bool, err error) {
	b.change.Lock()
	defer b.change.Unlock()
	if !b.Paused(route) {
		return false, nil
	}
	return true, b.keep(b.without(route))
}

func (b *Book) without(route string) []Pause {
	return slices.DeleteFunc(slices.Clone(b.All()), func(p Pause) bool { return p.Route == route })
}

// keep writes the routes and only then lets them count; change is held.
func (b *Book) keep(all []Pause) error {
	slices.SortFunc(all, func(x, y Pause) int { return strings.Compare(x.Route, y.Route) })
	paused, err := json.Marshal(all)
	if err != nil {
		return err
	}
	content, err := json.Marshal(file{Version: version, Paused: paused, SHA256: sum(paused)})
	if err != nil {
		return err
	}
	if err := b.write(b.name, append(content, '\n')); err != nil {
		return err
	}
	b.all.Store(&all)
	return nil
}

// Split parts rules into those of routes in use and those of routes that are paused
// at one instant.
func (b *Book) Split(t domain.RoutingTable) (inUse, paused domain.RoutingTable) {
	all := b.All()
	if len(all) == 0 {
		return t, nil
	}
	for _, rule := range t {
		if _, ok := of(all, rule.Route); ok {
			paused = append(paused, rule)
		} else {
			inUse = append(inUse, rule)
		}
	}
	return inUse, paused
}
