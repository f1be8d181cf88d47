package domain

import (
	"errors"
	"fmt"
)

// Installation is what operators did to the program as a whole, rather than to a
// project: its stream is the record of these acts. Who did each is in the event's
// line, beside it.
type Installation struct {
	Routes     Digest  // of the routes file in use; zero: none
	RestoredAt Instant // when the log was restored last
}

// InstallationEvent is an event of the installation's stream.
type InstallationEvent interface {
	Event
	evolveInstallation(Installation) Installation
	// origin returns the command that must have led to the event.
	origin() InstallationCommand
}

// InstallationCommand is a command on the installation.
type InstallationCommand interface {
	decideInstallation(Installation) (Event, error)
}

// Decide answers the event that a command leads to, nil if there is nothing to
// record.
func (i Installation) Decide(c InstallationCommand) (Event, error) { return c.decideInstallation(i) }

// Evolve applies an event. Events of other streams change nothing.
func (i Installation) Evolve(e Event) Installation {
	if e, ok := e.(InstallationEvent); ok {
		return e.evolveInstallation(i)
	}
	return i
}

// Redecide checks an event as Payment.Redecide does.
func (i Installation) Redecide(e Event) error {
	of, ok := e.(InstallationEvent)
	if !ok {
		return errors.New("it is no event of the installation")
	}
	got, err := i.Decide(of.origin())
	return SameEvent(got, err, e, "this installation", "")
}

// RoutesReason is why the routes file was read.
type RoutesReason string

// The reasons. Nobody is known to have sent a signal.
const (
	RoutesOnStart   RoutesReason = "start"
	RoutesOnSignal  RoutesReason = "signal"
	RoutesOnCommand RoutesReason = "command"
)

// LoadRoutes records that a routes file is in use, unless it was before.
type LoadRoutes RoutesLoaded

func (c LoadRoutes) decideInstallation(i Installation) (Event, error) {
	switch {
	case c.SHA256 == i.Routes:
		return nil, nil
	case c.Rules < 0 || c.Connectors < 0:
		return nil, fmt.Errorf("a routes file with %d rules and %d connectors", c.Rules, c.Connectors)
	}
	return RoutesLoaded(c), nil
}

// PauseRoute records that a route was paused. Which routes are paused is kept
// elsewhere, so it always does.
type PauseRoute RoutePaused

func (c PauseRoute) decideInstallation(Installation) (Event, error) { return RoutePaused(c), nil }

// ResumeRoute records that the pause of a route was ended, always.
type ResumeRoute RouteResumed

func (c ResumeRoute) decideInstallation(Installation) (Event, error) { return RouteResumed(c), nil }

// RestoreLog records a restore, once.
type RestoreLog LogRestored

func (c RestoreLog) decideInstallation(i Installation) (Event, error) {
	if c.RestoredAt == i.RestoredAt {
		return nil, nil
	}
	return LogRestored(c), nil
}
