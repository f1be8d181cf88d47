package httpapi

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"payledger/eventstore"
)

// eventLine is a record as it is listed: the stored bytes, unchanged, and
// where they stand.
type eventLine struct {
	Position eventstore.Position `json:"position"`
	Event    rawValue            `json:"event"`
}

// events answers GET /admin/events: the records after a position, of one
// project or of all, and with follow=true those that are still to come.
func (a *admin) events(x *exchange) error {
	q, err := parseQuery(x.r.URL.RawQuery, "after", "project", "follow")
	if err != nil {
		return err
	}
	var after uint64
	if q.has("after") {
		if after, err = strconv.ParseUint(q.value("after"), 10, 63); err != nil {
			return badParameter("after", "Send the position after which to begin, 0 for all.")
		}
	}
	follow := q.value("follow") == "true"
	if q.has("follow") && !follow && q.value("follow") != "false" {
		return badParameter("follow", "Send true or false.")
	}
	x.Header().Set("Content-Type", "application/jsonl")
	x.Header().Set("Cache-Control", "no-store")
	x.WriteHeader(http.StatusOK)
	x.Flush()
	line := func(r eventstore.Stored) error {
		b, err := json.Marshal(eventLine{r.Position, r.Body}, asWritten())
		if err != nil {
			return err
		}
		_, err = x.Write(append(b, '\n'))
		return err
	}
	filter := eventstore.Filter{Project: q.value("project")}
	if follow {
		err = a.cfg.Ledger.Store.Follow(x.ctx(), eventstore.Position(after), filter, func(r eventstore.Stored) error {
			if err := line(r); err != nil {
				return err
			}
			x.Flush()
			return nil
		})
		if x.ctx().Err() != nil || errors.Is(err, eventstore.ErrClosed) {
			return nil
		}
		return err
	}
	for r, err := range a.cfg.Ledger.Store.Scan(x.ctx(), eventstore.Position(after), filter) {
		if err != nil {
			return err
		}
		if err := line(r); err != nil {
			return err
		}
	}
	return nil
}
