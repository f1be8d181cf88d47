package installation

import (
	"maps"
	"slices"

	"payledger/domain"
)

// Wire names of events, part of the interface to auditors.
const (
	TypeRoutesLoaded = "routes.loaded"
	TypeRoutePaused  = "route.paused"
	TypeRouteResumed = "route.resumed"

	TypeRouteSettledSince = "route.settled_since"

	TypeLogRestored   = "log.restored"
	TypeLogKeyRenewed = "log_key.renewed"

	TypeNATSConsumerCreated = "nats_consumer.created"
	TypeNATSConsumerReset   = "nats_consumer.reset"
	TypeNATSConsumerRemoved = "nats_consumer.removed"

	TypeParkedSignalRetried    = "parked_signal.retried"
	TypeParkedSignalDiscarded  = "parked_signal.discarded"
	TypeParkedSignalsDiscarded = "parked_signals.discarded"
)

// Events is the registry of the event types of the installation. A version changes
// as domain.Events says:
//
//   - route.paused and route.resumed, version 2: nothing is recorded that changes
//     nothing, and a pause has its time.
//   - nats_consumer.created, reset and removed, version 2: consumers are what these events
//     say. Before they were in a file, and the events only told of it.
func Events() []domain.EventType {
	at := domain.Instant(1795169730123)
	start := domain.ID{1, 160, 112, 116, 98, 90, 26, 100, 54, 67, 17, 187, 4, 24, 14, 3}
	return []domain.EventType{
		domain.NewEventType(1, RoutesLoaded{SHA256: domain.Digest{7, 8, 9}, Rules: 3, Connectors: 2, On: RoutesOnCommand}),
		domain.NewEventType(2, RoutePaused{Route: "cards", Reason: "maintenance", Since: at}),
		domain.NewEventType(2, RouteResumed{Route: "cards"}),
		domain.NewEventType(1, RouteSettledSince{Route: "cards", Since: at}),
		domain.NewEventType(1, LogRestored{RestoredAt: at, File: "monday.db", Position: 88417, Forced: true}),
		domain.NewEventType(1, LogKeyRenewed{VerifierKey: "payledger/01M7W78FJBM8T4R7B5N0C1D2E3+2a799289+AbLZXrIgO2YlD1Yniy9Kabw2fWPTN8EqxZgRRLZL4vQX"}),
		domain.NewEventType(2, NATSConsumerCreated{ //nolint:gosec // the hash is that of no password
			Name: "books", ProjectID: "prj_01M7W78FJBM8T4R7B5N0C1D2E3", Start: start, Position: 88417,
			Password: "$2a$04$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy",
		}),
		domain.NewEventType(2, NATSConsumerReset{Name: "books", Position: 88417, Start: start}),
		domain.NewEventType(2, NATSConsumerRemoved{Name: "books"}),
		domain.NewEventType(1, ParkedSignalRetried{ID: 7}),
		domain.NewEventType(1, ParkedSignalDiscarded{ID: 7}),
		domain.NewEventType(1, ParkedSignalsDiscarded{Through: 7}),
	}
}

// RoutesLoaded: the server took a routes file that differs from the one before.
type RoutesLoaded struct {
	SHA256     domain.Digest `json:"sha256"` // of the file; zero: the server has none
	Rules      int           `json:"rules"`
	Connectors int           `json:"connectors"`
	On         RoutesReason  `json:"on"`
}

func (RoutesLoaded) Type() string { return TypeRoutesLoaded }

func (e RoutesLoaded) evolve(i Installation) Installation {
	i.Routes = e.SHA256
	return i
}

func (e RoutesLoaded) origin(domain.Instant) Command { return LoadRoutes(e) }

// RoutePaused: an operator paused a route, or gave another reason for its pause.
type RoutePaused struct {
	Route  string         `json:"route"`
	Reason string         `json:"reason"`         // "": none was given
	Since  domain.Instant `json:"since,omitzero"` // 0 in version 1
}

func (RoutePaused) Type() string { return TypeRoutePaused }

func (e RoutePaused) evolve(i Installation) Installation {
	i.Paused = slices.Clone(i.Paused)
	at, again := i.pausedAt(e.Route)
	if !again {
		i.Paused = slices.Insert(i.Paused, at, Pause{})
	}
	i.Paused[at] = Pause{Route: e.Route, Since: e.Since, Reason: e.Reason}
	return i
}

func (e RoutePaused) origin(at domain.Instant) Command {
	e.Since = at
	return PauseRoute(e)
}

// RouteResumed: an operator ended the pause of a route.
type RouteResumed struct {
	Route string `json:"route"`
}

func (RouteResumed) Type() string { return TypeRouteResumed }

func (e RouteResumed) evolve(i Installation) Installation {
	if at, ok := i.pausedAt(e.Route); ok {
		i.Paused = slices.Delete(slices.Clone(i.Paused), at, at+1)
	}
	return i
}

func (e RouteResumed) origin(domain.Instant) Command { return ResumeRoute(e) }

// RouteSettledSince: the server took a routes file that says otherwise than before from when on reports
// are to have the outcomes of a route.
type RouteSettledSince struct {
	Route string         `json:"route"`
	Since domain.Instant `json:"since,omitzero"` // 0: they are to have all
}

func (RouteSettledSince) Type() string { return TypeRouteSettledSince }

func (e RouteSettledSince) evolve(i Installation) Installation {
	since := maps.Clone(i.SettledSince)
	if since == nil {
		since = make(map[string]domain.Instant)
	}
	if since[e.Route] = e.Since; e.Since == 0 {
		delete(since, e.Route)
	}
	i.SettledSince = since
	return i
}

func (e RouteSettledSince) origin(domain.Instant) Command { return SettleRouteSince(e) }

// LogRestored: a copy was put in the place of the log. It is recorded when the copy
// is first used.
type LogRestored struct {
	RestoredAt domain.Instant `json:"restored_at"`
	File       string         `json:"file"`     // the copy's name, without its folder
	Position   uint64         `json:"position"` // of the copy's last event
	Forced     bool           `json:"forced"`   // what the copy lacked was moved aside
}

func (LogRestored) Type() string { return TypeLogRestored }

func (e LogRestored) evolve(i Installation) Installation {
	i.RestoredAt = e.RestoredAt
	return i
}

func (e LogRestored) origin(domain.Instant) Command { return RestoreLog(e) }

// LogKeyRenewed: an operator made another key for the log's checkpoints. It is
// recorded before the key is written, by the command itself, while no server runs.
type LogKeyRenewed struct {
	VerifierKey string `json:"verifier_key"`
}

func (LogKeyRenewed) Type() string { return TypeLogKeyRenewed }

func (LogKeyRenewed) act() {}

// NATSConsumerCreated: an operator gave a reader of events credentials of its own. In
// version 1 it has neither password nor start, and there is a consumer only if a later
// event says so.
type NATSConsumerCreated struct {
	Name      string    `json:"name"`
	ProjectID string    `json:"project_id"`      // whose payments it reads; "": those of all
	Password  string    `json:"password_bcrypt"` // of a random one of 256 bits
	Start     domain.ID `json:"start"`           // the order's id
	Position  uint64    `json:"position"`        // behind which it begins
}

func (NATSConsumerCreated) Type() string { return TypeNATSConsumerCreated }

func (e NATSConsumerCreated) evolve(i Installation) Installation {
	at, exists := i.consumerAt(e.Name)
	if exists || e.Password == "" {
		return i
	}
	i.Consumers = slices.Insert(slices.Clone(i.Consumers), at, Consumer{e.Name, e.ProjectID, e.Password, e.Start, e.Position})
	return i
}

func (e NATSConsumerCreated) origin(domain.Instant) Command { return CreateNATSConsumer(e) }

// NATSConsumerReset: an operator moved a consumer to another position.
type NATSConsumerReset struct {
	Name     string    `json:"name"`
	Position uint64    `json:"position"`
	Start    domain.ID `json:"start"` // the order's id
}

func (NATSConsumerReset) Type() string { return TypeNATSConsumerReset }

func (e NATSConsumerReset) evolve(i Installation) Installation {
	if at, ok := i.consumerAt(e.Name); ok {
		i.Consumers = slices.Clone(i.Consumers)
		i.Consumers[at].Start, i.Consumers[at].From = e.Start, e.Position
	}
	return i
}

func (e NATSConsumerReset) origin(domain.Instant) Command { return ResetNATSConsumer(e) }

// NATSConsumerRemoved: an operator took a consumer's credentials away.
type NATSConsumerRemoved struct {
	Name string `json:"name"`
}

func (NATSConsumerRemoved) Type() string { return TypeNATSConsumerRemoved }

func (e NATSConsumerRemoved) evolve(i Installation) Installation {
	if at, ok := i.consumerAt(e.Name); ok {
		i.Consumers = slices.Delete(slices.Clone(i.Consumers), at, at+1)
	}
	return i
}

func (e NATSConsumerRemoved) origin(domain.Instant) Command { return RemoveNATSConsumer(e) }

// ParkedSignalRetried: an operator retried a provider's signal that could not be judged. Its
// effects are other events.
type ParkedSignalRetried struct {
	ID uint64 `json:"id"`
}

func (ParkedSignalRetried) Type() string { return TypeParkedSignalRetried }

func (ParkedSignalRetried) act() {}

// ParkedSignalDiscarded: an operator deleted a provider's signal that could not be
// judged.
type ParkedSignalDiscarded struct {
	ID uint64 `json:"id"`
}

func (ParkedSignalDiscarded) Type() string { return TypeParkedSignalDiscarded }

func (ParkedSignalDiscarded) act() {}

// ParkedSignalsDiscarded: an operator deleted all such signals up to one.
type ParkedSignalsDiscarded struct {
	Through uint64 `json:"through"`
}

func (ParkedSignalsDiscarded) Type() string { return TypeParkedSignalsDiscarded }

func (ParkedSignalsDiscarded) act() {}
