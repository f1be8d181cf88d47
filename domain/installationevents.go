package domain

import "slices"

// RoutesLoaded: the server took a routes file that differs from the one before.
type RoutesLoaded struct {
	SHA256     Digest       `json:"sha256"` // of the file; zero: the server has none
	Rules      int          `json:"rules"`
	Connectors int          `json:"connectors"`
	On         RoutesReason `json:"on"`
}

func (RoutesLoaded) Type() string { return TypeRoutesLoaded }

func (e RoutesLoaded) evolveInstallation(i Installation) Installation {
	i.Routes = e.SHA256
	return i
}

func (e RoutesLoaded) origin(Instant) InstallationCommand { return LoadRoutes(e) }

// RoutePaused: an operator paused a route, or gave another reason for its pause.
type RoutePaused struct {
	Route  string  `json:"route"`
	Reason string  `json:"reason"`         // "": none was given
	Since  Instant `json:"since,omitzero"` // 0 in version 1
}

func (RoutePaused) Type() string { return TypeRoutePaused }

func (e RoutePaused) evolveInstallation(i Installation) Installation {
	i.Paused = slices.Clone(i.Paused)
	at, again := i.pausedAt(e.Route)
	if !again {
		i.Paused = slices.Insert(i.Paused, at, Pause{})
	}
	i.Paused[at] = Pause{Route: e.Route, Since: e.Since, Reason: e.Reason}
	return i
}

func (e RoutePaused) origin(at Instant) InstallationCommand {
	e.Since = at
	return PauseRoute(e)
}

// RouteResumed: an operator ended the pause of a route.
type RouteResumed struct {
	Route string `json:"route"`
}

func (RouteResumed) Type() string { return TypeRouteResumed }

func (e RouteResumed) evolveInstallation(i Installation) Installation {
	if at, ok := i.pausedAt(e.Route); ok {
		i.Paused = slices.Delete(slices.Clone(i.Paused), at, at+1)
	}
	return i
}

func (e RouteResumed) origin(Instant) InstallationCommand { return ResumeRoute(e) }

// LogRestored: a copy was put in the place of the log. It is recorded when the copy
// is first used.
type LogRestored struct {
	RestoredAt Instant `json:"restored_at"`
	File       string  `json:"file"`     // the copy's name, without its folder
	Position   uint64  `json:"position"` // of the copy's last event
	Forced     bool    `json:"forced"`   // what the copy lacked was moved aside
}

func (LogRestored) Type() string { return TypeLogRestored }

func (e LogRestored) evolveInstallation(i Installation) Installation {
	i.RestoredAt = e.RestoredAt
	return i
}

func (e LogRestored) origin(Instant) InstallationCommand { return RestoreLog(e) }
