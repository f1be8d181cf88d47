package merchant

import (
	"errors"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/peer"
	"payledger/httpapi/wire"
	"payledger/projections"
)

// Explain names the problem that an error of the log, of the views or of a
// worker amounts to.
func Explain(err error) (p wire.Problem, known bool) {
	var unavailable *peer.UnavailableError
	switch {
	case errors.As(err, &unavailable) && !unavailable.Unknown:
		return edge.Unavailable("1", "The servers are electing the one that records payments. Try again in a moment; nothing was stored."), true
	case unavailable != nil:
		return edge.Unfinished(), true
	case errors.Is(err, eventstore.ErrFull):
		return edge.Unavailable("30", "The disk of the server is full: nothing new is recorded. Reading works. Try again later; nothing was stored."), true
	case errors.As(err, new(*eventstore.SuspendedError)):
		return edge.Unavailable("30", "The server records nothing new until its operator has repaired it. Reading works. Try again later; nothing was stored."), true
	case errors.Is(err, eventstore.ErrUnconfirmed):
		return wire.Problem{Code: domain.Unconfirmed}.With("Retry-After", "2"), true
	case errors.Is(err, eventstore.ErrBusy):
		return edge.Unavailable("1", "The server is too busy to record this now. Try again; nothing was stored."), true
	case errors.As(err, new(*domain.TooEarlyError)):
		return edge.Unavailable("1", "The payment has no route yet. Try again in a moment."), true
	case errors.Is(err, eventstore.ErrClosed), errors.Is(err, projections.ErrClosed), errors.Is(err, projections.ErrStopped):
		return edge.Unavailable("5", "The server is stopping. Try again in a few seconds; nothing was stored."), true
	case errors.As(err, new(*eventstore.FatalError)), errors.As(err, new(*projections.DamagedError)):
		return edge.Unfinished(), true
	case errors.As(err, new(*eventstore.CorruptError)): // found in the middle of a long answer, too
		return wire.Problem{Code: domain.InternalError, Alarm: true}, true
	}
	return wire.Problem{}, false
}
