package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/projections"
)

// logPath is the prefix of the C2SP tlog-tiles layout. Entry bundles are not
// served under it: a bundle holds the events of every project, and a key is
// one project's.
const logPath = "/v1/log"

// checkpoint answers GET /v1/log/checkpoint.
func (a *merchants) checkpoint(x *exchange) error { return replyCheckpoint(x, a.cfg.Checkpoint) }

// ErrComparing: nothing new is signed before the whole log was compared with
// its newest checkpoint.
var ErrComparing = errors.New("the log is still being compared with its newest checkpoint")

func replyCheckpoint(x *exchange, sign func(context.Context) ([]byte, error)) error {
	signed, err := sign(x.ctx())
	if errors.Is(err, ErrComparing) {
		return unavailable("5", "After a start the log is compared with its newest checkpoint before a new one is signed. Try again.")
	}
	if err != nil {
		return err
	}
	x.replyBytes(http.StatusOK, "text/plain; charset=utf-8", signed)
	return nil
}

// inclusion answers GET /v1/log/proof/inclusion.
func (a *merchants) inclusion(x *exchange) error {
	position, size, err := bounds(x, "position", "size")
	if err != nil {
		return err
	}
	proof, err := a.cfg.Views.Inclusion(x.ctx(), position, size)
	if err != nil {
		return beyond("size", err)
	}
	return x.reply(http.StatusOK, proof)
}

// consistency answers GET /v1/log/proof/consistency.
func (a *merchants) consistency(x *exchange) error {
	from, to, err := bounds(x, "from", "to")
	if err != nil {
		return err
	}
	proof, err := a.cfg.Views.Consistency(x.ctx(), from, to)
	if err != nil {
		return beyond("to", err)
	}
	return x.reply(http.StatusOK, proof)
}

// bounds reads two parameters, 1 ≤ low ≤ high.
func bounds(x *exchange, low, high string) (l, h eventstore.Position, err error) {
	q, err := parseQuery(x.r.URL.RawQuery, low, high)
	if err != nil {
		return 0, 0, err
	}
	for _, p := range []struct {
		name string
		to   *eventstore.Position
	}{{low, &l}, {high, &h}} {
		s := q.value(p.name)
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
			return 0, 0, badParameter(p.name, "Send a whole number of events, 1 or more.")
		}
		*p.to = eventstore.Position(n)
	}
	if l > h {
		return 0, 0, badParameter(low, "Send a number that is not above "+high+".")
	}
	return l, h, nil
}

func beyond(parameter string, err error) error {
	if b, ok := errors.AsType[*projections.BeyondTreeError](err); ok {
		return badParameter(parameter, "The log holds "+strconv.FormatUint(uint64(b.Size), 10)+" events.")
	}
	return err
}

// tile answers GET /v1/log/tile/<L>/<N>[.p/<W>]. A tile never changes, so
// whoever may see it may keep it.
func (a *merchants) tile(x *exchange) error {
	t, err := translog.ParseTile(strings.TrimPrefix(x.r.URL.EscapedPath(), logPath+"/"))
	if err != nil {
		return problem{Code: domain.PathNotFound}
	}
	hashes, err := a.cfg.Views.Tile(x.ctx(), t)
	if errors.Is(err, translog.ErrNoTile) {
		return problem{Code: domain.PathNotFound, Detail: "The log has no such tile."}
	}
	if err != nil {
		return err
	}
	h := x.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.Itoa(len(hashes)))
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	x.WriteHeader(http.StatusOK)
	_, _ = x.Write(hashes) // the client went away: nobody is left to tell
	return nil
}
