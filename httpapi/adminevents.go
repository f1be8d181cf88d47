package httpapi

import (
	"errors"
	"strconv"

	"payledger/eventstore"

	"github.com/go-json-experiment/json/jsontext"
)

// eventLine is a record as it is listed: the stored bytes, unchanged, and
// where they stand.
type eventLine struct {
	Position eventstore.Position `json:"position"`
	Event    jsontext.Value      `json:"event"`
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
	out := x.stream(jsonLines)
	if err := out.flush(); err != nil {
		return err
	}
	line := func(r eventstore.Stored) error {
		b, err := lineOf(r)
		if err != nil {
			return err
		}
		_, err = out.Write(append(b, '\n'))
		return err
	}
	ctx, cancel := x.untilStopping(a.cfg.Stopping)
	defer cancel()
	filter := eventstore.Filter{Project: q.value("project")}
	if follow {
		err = a.cfg.Ledger.Store.Follow(ctx, eventstore.Position(after), filter, func(r eventstore.Stored) error {
			if err := line(r); err != nil {
				return err
			}
			return out.flush()
		})
		if ctx.Err() != nil || errors.Is(err, eventstore.ErrClosed) {
			return nil
		}
		return err
	}
	for r, err := range a.cfg.Ledger.Store.Scan(ctx, eventstore.Position(after), filter) {
		if err != nil {
			_ = out.flush() // all that is whole, so that its end tells where the damage is
			return err
		}
		if err := line(r); err != nil {
			return err
		}
	}
	return out.flush()
}
