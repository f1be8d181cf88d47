// Package routesfile reads the routes file: which routes there are for whose
// money, and which connector each has.
//
//	{
//	  "rules": [
//	    {"route": "cards", "currency": "RUB", "min": "1.00", "max": "50000.00", "weight": 3}
//	  ],
//	  "connectors": {
//	    "cards": {"type": "stripe", "api_key_file": "stripe.key"}
//	  }
//	}
//
// A rule without currency, min or max takes them all, and its weight is 1 unless
// it is given. Each route of a rule has a connector. The other members of a
// connector are its type's own; see the package of the type. A file that is only
// the array of rules gives each route a connector of type nats.
//
// The route "sandbox" is the simulated provider's: it needs no connector, and
// that the sandbox is switched on.
//
// Everything that is wrong is reported at once, with line, column and pointer.
// What is wrong with JSON itself, members given twice included, hides what comes
// after it.
package routesfile

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"payledger/domain"
	"payledger/httpapi/wire"
	"payledger/notifier/connector"
)

// maxFile is the largest routes file that is read, in bytes.
const maxFile = 1 << 20

// The types of connectors that need no settings: the one whose provider is played
// by hand, and the one of every route in a file that names no connectors.
const (
	sandboxType = "sandbox"
	natsType    = "nats"
)

// Source is where the routes come from.
type Source struct {
	File    string // the routes file; empty: there is none
	Sandbox bool   // the simulated provider may collect; without a file it collects everything
	Types   []connector.Type

	// AllowPrivate lets all connectors call this machine and private networks, for
	// development.
	AllowPrivate bool
}

// Loaded is the content of a routes file, with warnings.
type Loaded struct {
	connector.Routes
	Warnings []Problem
	SHA256   domain.Digest // of the file; zero: there is none
}

// Load reads and checks the routes file and makes the connectors, which calls no
// provider. Of env it takes NATS, Now and Log; connectors that were made without
// NATS are checked and of no use. The error is an *Error, or says why the file
// cannot be read.
func (s Source) Load(env connector.Env) (Loaded, error) {
	r := reading{source: s, env: env}
	r.connectors = make(map[string]connector.Opened)
	if s.File == "" {
		if s.Sandbox {
			r.table = domain.SandboxTable()
			r.connectors[domain.SandboxRoute] = connector.Opened{Type: sandboxType}
		}
		return r.loaded(), nil
	}
	var err error
	if r.content, err = ReadUpTo(s.File, maxFile+1); err != nil {
		return Loaded{}, err
	}
	if len(r.content) > maxFile {
		return Loaded{}, fmt.Errorf("%s is longer than %d bytes", s.File, maxFile)
	}
	r.read()
	if len(r.problems) > 0 {
		inOrder(r.problems)
		return Loaded{}, &Error{s.File, r.problems}
	}
	inOrder(r.warnings)
	return r.loaded(), nil
}

func (r *reading) loaded() Loaded {
	l := Loaded{Routes: connector.Routes{Table: r.table, Connectors: r.connectors}, Warnings: r.warnings}
	if r.source.File != "" {
		l.SHA256 = sha256.Sum256(r.content)
	}
	return l
}

// ReadUpTo reads the beginning of a file.
func ReadUpTo(name string, limit int64) (content []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, limit))
}

func inOrder(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// List shows routes to the operator, by name.
func List(routes connector.Routes) []wire.Route {
	list := make([]wire.Route, 0, len(routes.Connectors))
	for _, name := range slices.Sorted(maps.Keys(routes.Connectors)) {
		c := routes.Connectors[name]
		row := wire.Route{Route: name, Type: c.Type, Retired: c.Retired, Rules: []domain.Rule{}, FeesPaidBy: c.FeesPaidBy, SettledSince: c.SettledSince}
		for _, rule := range routes.Table {
			if rule.Route == name {
				row.Rules = append(row.Rules, rule)
			}
		}
		list = append(list, row)
	}
	return list
}
