package connector

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"payledger/domain"
	"payledger/domain/settlement"
)

// Routes are what one reading of the routes file says: the rules that choose a
// payment's route, and the connector of each route. It is not changed after it
// was handed to a Set.
type Routes struct {
	Table      domain.RoutingTable
	Connectors map[string]Opened // by route
}

// Opened is a route's connector.
type Opened struct {
	Type string // its name, as in the routes file

	FeesPaidBy   settlement.Bearer // of the provider's; "": the operator
	SettledSince domain.Instant    // from when on its reports are to have the route's outcomes; 0: all of them

	// Connector is nil where nothing has to be asked of the provider: the sandbox
	// is played by hand.
	Connector Connector

	// Retired: the routes file does not name the route any more. What was begun through it continues.
	Retired bool
}

// Set holds the routes in use. The routes file can be read again while everything runs: Replace
// changes rules and connectors at one instant, so users get them from the set each time and store
// none. Safe for concurrent use.
type Set struct{ routes atomic.Pointer[Routes] }

// NewSet makes a set.
func NewSet(r Routes) *Set {
	s := &Set{}
	s.routes.Store(&r)
	return s
}

// Replace puts other routes in the place of the present ones. The connector of a
// route that they do not name stays, marked as retired, because attempts at its
// provider may be open; retired answers the names of all such routes.
//
// A route keeps its type: what was begun at one provider cannot be continued at another. The error
// is a *TypeChangedError then, and nothing is replaced.
//
// There is one caller at a time.
func (s *Set) Replace(r Routes) (retired []string, err error) {
	r.Connectors = maps.Clone(r.Connectors)
	if r.Connectors == nil {
		r.Connectors = make(map[string]Opened)
	}
	for route, opened := range s.routes.Load().Connectors {
		next, named := r.Connectors[route]
		switch {
		case !named:
			opened.Retired = true
			r.Connectors[route] = opened
			retired = append(retired, route)
		case next.Type != opened.Type:
			return nil, &TypeChangedError{Route: route, From: opened.Type, To: next.Type}
		}
	}
	s.routes.Store(&r)
	slices.Sort(retired)
	return retired, nil
}

// TypeChangedError: a route would get a connector of another type.
type TypeChangedError struct{ Route, From, To string }

func (e *TypeChangedError) Error() string {
	return fmt.Sprintf("the route %q has a connector of type %s, which may have attempts open: give the connector of type %s another route",
		e.Route, e.From, e.To)
}

// Routes are the rules and connectors of this instant, which must not be changed.
func (s *Set) Routes() Routes { return *s.routes.Load() }

// Table are the rules of this instant.
func (s *Set) Table() domain.RoutingTable { return s.routes.Load().Table }

// Names are the routes of the rules and of the connectors, each once.
func (s *Set) Names() []string {
	r := s.Routes()
	names := slices.Collect(maps.Keys(r.Connectors))
	for _, rule := range r.Table {
		names = append(names, rule.Route)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Connector is the route's connector. ok is false for a route that has none:
// one that is not known, and the sandbox's.
func (s *Set) Connector(route string) (c Connector, ok bool) {
	c = s.routes.Load().Connectors[route].Connector
	return c, c != nil
}
