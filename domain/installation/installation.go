// Package installation holds what operators did to the program as a whole, rather
// than to a project: the aggregate Installation, whose stream is the record of
// these acts. It is as pure as package domain.
package installation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"payledger/domain"
)

// Installation is the state after all these acts. The actor of each is in the event's line of the
// log: see eventstore.Cause.
type Installation struct {
	Routes     domain.Digest  // of the routes file in use; zero: none
	Paused     []Pause        // by route
	RestoredAt domain.Instant // when the log was restored last
	Consumers  []Consumer     // by name

	// SettledSince is from when on reports are to have a route's outcomes; without one they are to have all.
	SettledSince map[string]domain.Instant
}

// Pause is a route that an operator has paused: no payment is given to it, and no
// attempt to pay begins on it.
type Pause struct {
	Route  string
	Since  domain.Instant
	Reason string // the operator's text
}

// Pause is the pause of a route; ok is false when it is not paused.
func (i Installation) Pause(route string) (p Pause, ok bool) {
	at, ok := i.pausedAt(route)
	if ok {
		p = i.Paused[at]
	}
	return p, ok
}

func (i Installation) pausedAt(route string) (int, bool) {
	return slices.BinarySearchFunc(i.Paused, route, func(p Pause, route string) int { return strings.Compare(p.Route, route) })
}

// Split parts rules into those of routes in use and those of routes that are paused.
func (i Installation) Split(t domain.RoutingTable) (inUse, paused domain.RoutingTable) {
	if len(i.Paused) == 0 {
		return t, nil
	}
	for _, rule := range t {
		if _, ok := i.Pause(rule.Route); ok {
			paused = append(paused, rule)
		} else {
			inUse = append(inUse, rule)
		}
	}
	return inUse, paused
}

// Event is an event of the installation's stream that changes its state.
type Event interface {
	domain.Event
	evolve(Installation) Installation
	// origin returns the command that must have led to the event, which was recorded
	// at the instant.
	origin(domain.Instant) Command
}

// Act is an event of the stream about an act on what the log does not hold.
type Act interface {
	domain.Event
	act()
}

// Command is a command on the installation.
type Command interface {
	decide(Installation) (domain.Event, error)
}

// Decide returns the event that a command leads to, nil if there is nothing to
// record.
func (i Installation) Decide(c Command) (domain.Event, error) { return c.decide(i) }

// Evolve applies an event. Events of other streams change nothing.
func (i Installation) Evolve(e domain.Event) Installation {
	if e, ok := e.(Event); ok {
		return e.evolve(i)
	}
	return i
}

// Redecide checks an event as Payment.Redecide does.
func (i Installation) Redecide(e domain.Event, r domain.Recorded) error {
	if _, ok := e.(Act); ok {
		return nil // it is recorded in any state
	}
	of, ok := e.(Event)
	if !ok {
		return errors.New("it is no event of the installation")
	}
	switch e.(type) {
	case RoutePaused, RouteResumed, NATSConsumerCreated, NATSConsumerReset, NATSConsumerRemoved:
		if r.Version == 1 {
			return nil // it was recorded also where it changed nothing
		}
	}
	got, err := i.Decide(of.origin(r.At))
	return domain.SameEvent(got, err, e, "this installation", "")
}

// RoutesReason is why the routes file was read.
type RoutesReason string

// The reasons. A signal does not say who sent it.
const (
	RoutesOnStart   RoutesReason = "start"
	RoutesOnSignal  RoutesReason = "signal"
	RoutesOnCommand RoutesReason = "command"
)

// LoadRoutes records that a routes file is in use, unless it was before.
type LoadRoutes RoutesLoaded

func (c LoadRoutes) decide(i Installation) (domain.Event, error) {
	switch {
	case c.SHA256 == i.Routes:
		return nil, nil
	case c.Rules < 0 || c.Connectors < 0:
		return nil, fmt.Errorf("a routes file with %d rules and %d connectors", c.Rules, c.Connectors)
	}
	return RoutesLoaded(c), nil
}

// SettleRouteSince records from when on reports are to have the outcomes of a route, unless it is known.
type SettleRouteSince RouteSettledSince

func (c SettleRouteSince) decide(i Installation) (domain.Event, error) {
	if c.Since == i.SettledSince[c.Route] {
		return nil, nil
	}
	return RouteSettledSince(c), nil
}

// PauseRoute pauses a route from the instant on. A route that is paused already
// keeps its time and gets the new reason, unless that is empty.
type PauseRoute RoutePaused

func (c PauseRoute) decide(i Installation) (domain.Event, error) {
	if p, ok := i.Pause(c.Route); ok {
		if c.Reason == "" || c.Reason == p.Reason {
			return nil, nil
		}
		c.Since = p.Since
	}
	return RoutePaused(c), nil
}

// ResumeRoute ends the pause of a route, if there is one.
type ResumeRoute RouteResumed

func (c ResumeRoute) decide(i Installation) (domain.Event, error) {
	if _, ok := i.Pause(c.Route); !ok {
		return nil, nil
	}
	return RouteResumed(c), nil
}

// RestoreLog records a restore, once.
type RestoreLog LogRestored

func (c RestoreLog) decide(i Installation) (domain.Event, error) {
	if c.RestoredAt == i.RestoredAt {
		return nil, nil
	}
	return LogRestored(c), nil
}

// RecordAct records an act, always: it is recorded before it is done, and done again it is
// recorded again.
type RecordAct struct{ Act Act }

func (c RecordAct) decide(Installation) (domain.Event, error) { return c.Act, nil } //nolint:unparam // as all commands
