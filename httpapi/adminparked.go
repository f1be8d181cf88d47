package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"payledger/domain"
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

func (a *admin) parkedRoutes() []route {
	const all = "/admin/signals/parked"
	return []route{
		{method: "GET", path: all, operation: "adminListParked", handle: a.listParked},
		{method: "POST", path: all + "/discard", operation: "adminDiscardParkedThrough", handle: a.discardParkedThrough},
		{method: "POST", path: all + "/{id}/retry", operation: "adminRetryParked", handle: a.retryParked},
		{method: "POST", path: all + "/{id}/discard", operation: "adminDiscardParked", handle: a.discardParked},
	}
}

func (a *admin) listParked(x *exchange) error {
	q, err := parseQuery(x.r.URL.RawQuery, "after", "reason", "limit")
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	after, err := parkedID(q, "after")
	if err != nil {
		return err
	}
	page, err := a.cfg.Parked.List(x.ctx(), after, q["reason"], limit)
	if err != nil {
		return a.parkedAway(err)
	}
	return x.reply(http.StatusOK, page)
}

func (a *admin) retryParked(x *exchange) error {
	id, err := strconv.ParseUint(x.vars["id"], 10, 64)
	if err != nil {
		return &domain.Refusal{Code: domain.ParkedSignalNotFound}
	}
	ctx, cancel := context.WithTimeout(x.ctx(), retryWait)
	defer cancel()
	reply, found, err := a.cfg.Parked.Retry(ctx, id)
	switch {
	case err != nil:
		return a.parkedAway(err)
	case !found:
		return &domain.Refusal{Code: domain.ParkedSignalNotFound}
	}
	return x.reply(http.StatusOK, reply)
}

func (a *admin) discardParked(x *exchange) error {
	id, err := strconv.ParseUint(x.vars["id"], 10, 64)
	if err != nil {
		return &domain.Refusal{Code: domain.ParkedSignalNotFound}
	}
	found, err := a.cfg.Parked.Discard(x.ctx(), id)
	switch {
	case err != nil:
		return a.parkedAway(err)
	case !found:
		return &domain.Refusal{Code: domain.ParkedSignalNotFound}
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *admin) discardParkedThrough(x *exchange) error {
	q, err := parseQuery(x.r.URL.RawQuery, "through")
	if err != nil {
		return err
	}
	through, err := parkedID(q, "through")
	if err != nil {
		return err
	}
	n, err := a.cfg.Parked.DiscardThrough(x.ctx(), through)
	if err != nil {
		return a.parkedAway(err)
	}
	return x.reply(http.StatusOK, map[string]uint64{"discarded": n})
}

// parkedID reads a parameter that names a parked signal; 0 when it is not there.
func parkedID(q query, name string) (uint64, error) {
	if !q.has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(q[name], 10, 63)
	if err != nil {
		return 0, badParameter(name, "Send the id of a parked signal, a whole number.")
	}
	return n, nil
}

// parkedAway shows the error itself, because only the operator reads it.
func (a *admin) parkedAway(err error) error {
	return problem{Code: domain.Unavailable, Detail: "JetStream does not do it just now; what is parked stays as it is. " + err.Error()}
}
