package admin

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// retryWait bounds the wait for the answer to a signal that is retried.
const retryWait = 15 * time.Second

// Parked are the signals that could not be judged, oldest first. found tells
// whether there is one of the id.
type Parked interface {
	List(ctx context.Context, after uint64, reason string, limit int) (domain.ParkedPage, error)
	Retry(ctx context.Context, id uint64) (reply domain.SignalReply, found bool, err error)
	Discard(ctx context.Context, id uint64) (found bool, err error)
	DiscardThrough(ctx context.Context, id uint64) (uint64, error)
}

func (a *admin) parkedRoutes() []edge.Route {
	const all = "/admin/signals/parked"
	return []edge.Route{
		{Method: "GET", Path: all, Operation: "adminListParked", Handle: a.listParked},
		{Method: "POST", Path: all + "/discard", Operation: "adminDiscardParkedThrough", Handle: a.discardParkedThrough},
		{Method: "POST", Path: all + "/{id}/retry", Operation: "adminRetryParked", Handle: a.retryParked},
		{Method: "POST", Path: all + "/{id}/discard", Operation: "adminDiscardParked", Handle: a.discardParked},
	}
}

func (a *admin) listParked(x *edge.Exchange) error {
	q, err := x.Query("after", "reason", "limit")
	if err != nil {
		return err
	}
	limit, err := q.Limit()
	if err != nil {
		return err
	}
	after, err := parkedID(q, "after")
	if err != nil {
		return err
	}
	page, err := a.cfg.Parked.List(x.Context(), after, q["reason"], limit)
	if err != nil {
		return a.parkedAway(err)
	}
	return x.Reply(http.StatusOK, page)
}

func (a *admin) retryParked(x *edge.Exchange) error {
	id, err := strconv.ParseUint(x.Vars["id"], 10, 64)
	if err != nil {
		return &domain.Refusal{Code: domain.ParkedSignalNotFound}
	}
	ctx, cancel := context.WithTimeout(x.Context(), retryWait)
	defer cancel()
	reply, found, err := a.cfg.Parked.Retry(ctx, id)
	switch {
	case err != nil:
		return a.parkedAway(err)
	case !found:
		return &domain.Refusal{Code: domain.ParkedSignalNotFound}
	}
	return x.Reply(http.StatusOK, reply)
}

func (a *admin) discardParked(x *edge.Exchange) error {
	id, err := strconv.ParseUint(x.Vars["id"], 10, 64)
	if err != nil {
		return &domain.Refusal{Code: domain.ParkedSignalNotFound}
	}
	found, err := a.cfg.Parked.Discard(x.Context(), id)
	switch {
	case err != nil:
		return a.parkedAway(err)
	case !found:
		return &domain.Refusal{Code: domain.ParkedSignalNotFound}
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *admin) discardParkedThrough(x *edge.Exchange) error {
	q, err := x.Query("through")
	if err != nil {
		return err
	}
	through, err := parkedID(q, "through")
	if err != nil {
		return err
	}
	n, err := a.cfg.Parked.DiscardThrough(x.Context(), through)
	if err != nil {
		return a.parkedAway(err)
	}
	return x.Reply(http.StatusOK, map[string]uint64{"discarded": n})
}

// parkedID reads a parameter that names a parked signal; 0 when it is not there.
func parkedID(q edge.Query, name string) (uint64, error) {
	if !q.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(q[name], 10, 63)
	if err != nil {
		return 0, edge.BadParameter(name, "Send the id of a parked signal, a whole number.")
	}
	return n, nil
}

// parkedAway shows the error itself, because only the operator reads it.
func (a *admin) parkedAway(err error) error {
	return wire.Problem{Code: domain.Unavailable, Detail: "JetStream does not do it just now; what is parked stays as it is. " + err.Error()}
}
