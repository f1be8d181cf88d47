package domain

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

func (e RoutesLoaded) origin() InstallationCommand { return LoadRoutes(e) }

// RoutePaused: an operator paused a route.
type RoutePaused struct {
	Route  string `json:"route"`
	Reason string `json:"reason"` // "": none was given
}

func (RoutePaused) Type() string { return TypeRoutePaused }

func (RoutePaused) evolveInstallation(i Installation) Installation { return i }

func (e RoutePaused) origin() InstallationCommand { return PauseRoute(e) }

// RouteResumed: an operator ended the pause of a route.
type RouteResumed struct {
	Route string `json:"route"`
}

func (RouteResumed) Type() string { return TypeRouteResumed }

func (RouteResumed) evolveInstallation(i Installation) Installation { return i }

func (e RouteResumed) origin() InstallationCommand { return ResumeRoute(e) }

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

func (e LogRestored) origin() InstallationCommand { return RestoreLog(e) }
