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

// LogKeyRenewed: an operator made another key for the log's checkpoints. It is
// recorded before the key is written, by the command itself, while no server runs.
type LogKeyRenewed struct {
	VerifierKey string `json:"verifier_key"`
}

func (LogKeyRenewed) Type() string { return TypeLogKeyRenewed }

func (LogKeyRenewed) evolveInstallation(i Installation) Installation { return i }

func (e LogKeyRenewed) origin(Instant) InstallationCommand { return RecordAct{e} }

// NATSConsumerCreated: an operator gave a reader of events credentials of its own.
type NATSConsumerCreated struct {
	Name      string `json:"name"`
	ProjectID string `json:"project_id"` // whose payments it reads; "": those of all
}

func (NATSConsumerCreated) Type() string { return TypeNATSConsumerCreated }

func (NATSConsumerCreated) evolveInstallation(i Installation) Installation { return i }

func (e NATSConsumerCreated) origin(Instant) InstallationCommand { return RecordAct{e} }

// NATSConsumerReset: an operator let a consumer go on behind another position.
type NATSConsumerReset struct {
	Name     string `json:"name"`
	Position uint64 `json:"position"`
}

func (NATSConsumerReset) Type() string { return TypeNATSConsumerReset }

func (NATSConsumerReset) evolveInstallation(i Installation) Installation { return i }

func (e NATSConsumerReset) origin(Instant) InstallationCommand { return RecordAct{e} }

// NATSConsumerRemoved: an operator took a consumer's credentials away.
type NATSConsumerRemoved struct {
	Name string `json:"name"`
}

func (NATSConsumerRemoved) Type() string { return TypeNATSConsumerRemoved }

func (NATSConsumerRemoved) evolveInstallation(i Installation) Installation { return i }

func (e NATSConsumerRemoved) origin(Instant) InstallationCommand { return RecordAct{e} }

// ParkedSignalRetried: an operator had a provider's signal judged again that could not
// be judged. What came of it are events of their own.
type ParkedSignalRetried struct {
	ID uint64 `json:"id"`
}

func (ParkedSignalRetried) Type() string { return TypeParkedSignalRetried }

func (ParkedSignalRetried) evolveInstallation(i Installation) Installation { return i }

func (e ParkedSignalRetried) origin(Instant) InstallationCommand { return RecordAct{e} }

// ParkedSignalDiscarded: an operator deleted a provider's signal that could not be
// judged.
type ParkedSignalDiscarded struct {
	ID uint64 `json:"id"`
}

func (ParkedSignalDiscarded) Type() string { return TypeParkedSignalDiscarded }

func (ParkedSignalDiscarded) evolveInstallation(i Installation) Installation { return i }

func (e ParkedSignalDiscarded) origin(Instant) InstallationCommand { return RecordAct{e} }

// ParkedSignalsDiscarded: an operator deleted all such signals up to one.
type ParkedSignalsDiscarded struct {
	Through uint64 `json:"through"`
}

func (ParkedSignalsDiscarded) Type() string { return TypeParkedSignalsDiscarded }

func (ParkedSignalsDiscarded) evolveInstallation(i Installation) Installation { return i }

func (e ParkedSignalsDiscarded) origin(Instant) InstallationCommand { return RecordAct{e} }
