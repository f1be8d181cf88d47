package admin

import (
	"cmp"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// identify finds the actor: the person whom the request names. A process that can open the socket may
// do everything, so the name is believed.
func identify(x *edge.Exchange) (err error) {
	if x.Actor, err = eventstore.OperatorActor(cmp.Or(x.Request.Header.Get(wire.OperatorHeader), "unknown")); err != nil {
		return wire.Problem{Code: domain.InvalidParameter, Detail: "The operator's name cannot be used: " + err.Error() + "."}
	}
	return nil
}

// recorded decides commands of the request on the installation.
func (a *admin) recorded(x *edge.Exchange) func(installation.Command) error {
	return func(c installation.Command) error {
		_, err := a.cfg.Record(x.Context(), causeOf(x), c)
		return err
	}
}

// causeOf is the cause of the events that a request has recorded.
func causeOf(x *edge.Exchange) eventstore.Cause {
	return eventstore.Cause{Actor: x.Actor, Trace: x.Trace}
}
