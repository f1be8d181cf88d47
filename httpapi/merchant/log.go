package merchant

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/views"
)

// logPath is the prefix of the C2SP tlog-tiles layout. Entry bundles are not
// served under it: a bundle holds the events of every project, and a key is
// one project's.
const LogPath = "/v1/log"

// checkpoint answers GET /v1/log/checkpoint.
func (a *API) Checkpoint(x *edge.Exchange) error { return ReplyCheckpoint(x, a.cfg.Checkpoint) }

// ErrComparing: nothing new is signed before the whole log was compared with
// its newest checkpoint.
var ErrComparing = errors.New("the log is still being compared with its newest checkpoint")

func ReplyCheckpoint(x *edge.Exchange, sign func(context.Context) ([]byte, error)) error {
	signed, err := sign(x.Context())
	if errors.Is(err, ErrComparing) {
		return edge.Unavailable("5", "After a start the log is compared with its newest checkpoint before a new one is signed. Try again.")
	}
	if err != nil {
		return err
	}
	x.ReplyBytes(http.StatusOK, "text/plain; charset=utf-8", signed)
	return nil
}

// inclusion answers GET /v1/log/proof/inclusion.
func (a *API) Inclusion(x *edge.Exchange) error {
	position, size, err := bounds(x, "position", "size")
	if err != nil {
		return err
	}
	proof, err := a.cfg.Views.Inclusion(x.Context(), position, size)
	if err != nil {
		return beyond("size", err)
	}
	return x.Reply(http.StatusOK, proof)
}

// consistency answers GET /v1/log/proof/consistency.
func (a *API) Consistency(x *edge.Exchange) error {
	from, to, err := bounds(x, "from", "to")
	if err != nil {
		return err
	}
	proof, err := a.cfg.Views.Consistency(x.Context(), from, to)
	if err != nil {
		return beyond("to", err)
	}
	return x.Reply(http.StatusOK, proof)
}

// bounds reads two parameters, 1 ≤ low ≤ high.
func bounds(x *edge.Exchange, low, high string) (l, h eventstore.Position, err error) {
	q, err := edge.ParseQuery(x.Request.URL.RawQuery, low, high)
	if err != nil {
		return 0, 0, err
	}
	for _, p := range []struct {
		name string
		to   *eventstore.Position
	}{{low, &l}, {high, &h}} {
		s := q.Value(p.name)
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
			return 0, 0, edge.BadParameter(p.name, "Send a whole number of events, 1 or more.")
		}
		*p.to = eventstore.Position(n)
	}
	if l > h {
		return 0, 0, edge.BadParameter(low, "Send a number that is not above "+high+".")
	}
	return l, h, nil
}

func beyond(parameter string, err error) error {
	if b, ok := errors.AsType[*views.BeyondTreeError](err); ok {
		return edge.BadParameter(parameter, "The log holds "+strconv.FormatUint(uint64(b.Size), 10)+" events.")
	}
	return err
}

// tile answers GET /v1/log/tile/<L>/<N>[.p/<W>]. A tile never changes, so
// whoever may see it may keep it.
func (a *API) Tile(x *edge.Exchange) error {
	t, err := translog.ParseTile(strings.TrimPrefix(x.Request.URL.EscapedPath(), LogPath+"/"))
	if err != nil {
		return wire.Problem{Code: domain.PathNotFound}
	}
	hashes, err := a.cfg.Views.Tile(x.Context(), t)
	if errors.Is(err, translog.ErrNoTile) {
		return wire.Problem{Code: domain.PathNotFound, Detail: "The log has no such tile."}
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
