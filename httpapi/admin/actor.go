package admin

import (
	"os/user"
	"strings"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// identify finds the actor: the person whom the request names, or else the user at the other end of
// the socket. A process that can open the socket may do everything, so the name is believed.
func identify(x *edge.Exchange) (err error) {
	name := x.Request.Header.Get(wire.OperatorHeader)
	if name == "" {
		name = userOf(x.Request.RemoteAddr)
	}
	if x.Actor, err = eventstore.OperatorActor(name); err != nil {
		return wire.Problem{Code: domain.InvalidParameter, Detail: "The operator's name cannot be used: " + err.Error() + "."}
	}
	return nil
}

// userOf is the name of the user at the other end of a socket.
func userOf(remote string) string {
	uid, known := strings.CutPrefix(remote, "uid:")
	if !known {
		return "unknown"
	}
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return remote
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
