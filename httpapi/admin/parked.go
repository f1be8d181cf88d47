package admin

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/httpapi/edge"
)

// retryWait bounds the wait for the answer to a signal that is retried.
const retryWait = 15 * time.Second

// parkedHint says what to send where a parameter is the id of a parked signal.
const parkedHint = "Send the id of a parked signal, a whole number."

// parkedStay is what an error has led to.
const parkedStay = "The parked signals stay as they are."

// Parked are the signals that could not be judged, oldest first. found reports whether there is one
// with the id.
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
	after, err := q.Number("after", parkedHint)
	if err != nil {
		return err
	}
	page, err := a.cfg.Parked.List(x.Context(), after, q["reason"], limit)
	if err != nil {
		return away(err, parkedStay)
	}
	return x.Reply(http.StatusOK, page)
}

func (a *admin) retryParked(x *edge.Exchange) error {
	ctx, cancel := context.WithTimeout(x.Context(), retryWait)
	defer cancel()
	var reply domain.SignalReply
	err := a.onParked(x, func(id uint64) installation.Act { return installation.ParkedSignalRetried{ID: id} }, func(id uint64) (found bool, err error) {
		reply, found, err = a.cfg.Parked.Retry(ctx, id)
		return found, err
	})
	return x.Answer(reply, err)
}

func (a *admin) discardParked(x *edge.Exchange) error {
	err := a.onParked(x, func(id uint64) installation.Act { return installation.ParkedSignalDiscarded{ID: id} }, func(id uint64) (bool, error) {
		return a.cfg.Parked.Discard(x.Context(), id)
	})
	if err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// onParked calls do for the parked signal in the path, if there is one, once its act is recorded.
func (a *admin) onParked(x *edge.Exchange, act func(id uint64) installation.Act, do func(id uint64) (found bool, err error)) error {
	missing := &domain.Refusal{Code: domain.ParkedSignalNotFound}
	id, err := strconv.ParseUint(x.Vars["id"], 10, 64)
	if err != nil {
		return missing
	}
	there, err := a.cfg.Parked.List(x.Context(), max(id, 1)-1, "", 1)
	found := err == nil && len(there.Data) > 0 && there.Data[0].ID == id
	if found {
		if err = a.recorded(x)(installation.RecordAct{Act: act(id)}); err == nil {
			found, err = do(id)
		}
	}
	switch {
	case err != nil:
		return away(err, parkedStay)
	case !found:
		return missing
	}
	return nil
}

func (a *admin) discardParkedThrough(x *edge.Exchange) error {
	q, err := x.Query("through")
	if err != nil {
		return err
	}
	through, err := q.Number("through", parkedHint)
	if err != nil {
		return err
	}
	var n uint64
	there, err := a.cfg.Parked.List(x.Context(), 0, "", 1)
	if err == nil && len(there.Data) > 0 && there.Data[0].ID <= through {
		if err = a.recorded(x)(installation.RecordAct{Act: installation.ParkedSignalsDiscarded{Through: through}}); err == nil {
			n, err = a.cfg.Parked.DiscardThrough(x.Context(), through)
		}
	}
	if err != nil {
		return away(err, parkedStay)
	}
	return x.Reply(http.StatusOK, map[string]uint64{"discarded": n})
}
