package merchant

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/views"
)

// LogPath is the prefix of the C2SP tlog-tiles layout. Entry bundles are not
// served under it: a bundle holds the events of every project, and a key is
// one project's.
const LogPath = "/v1/log"

// ErrComparing: nothing new is signed before the whole log was compared with
// its newest checkpoint.
var ErrComparing = errors.New("the log is still being compared with its newest checkpoint")

// GetCheckpoint answers GET /v1/log/checkpoint.
func (h Handlers) GetCheckpoint(x *edge.Exchange) error {
	signed, err := h.api.Checkpoint(x.Context(), CallerOf(x))
	if err != nil {
		return err
	}
	x.ReplyBytes(http.StatusOK, "text/plain; charset=utf-8", signed)
	return nil
}

// Checkpoint is a signed checkpoint of everything that is durable, or more.
// Needs audit.
func (a *API) Checkpoint(ctx context.Context, c Caller) ([]byte, error) {
	if err := a.Admit(&c, projects.Audit, nil); err != nil {
		return nil, err
	}
	if a.cfg.Checkpoint == nil {
		return nil, wire.Problem{Code: domain.PathNotFound, Detail: "There is no signed checkpoint here."}
	}
	signed, err := a.cfg.Checkpoint(ctx)
	if errors.Is(err, ErrComparing) {
		err = edge.Unavailable("5", "After a start the log is compared with its newest checkpoint before a new one is signed. Try again.")
	}
	return signed, err
}

// GetReceipt answers GET /v1/payments/{id}/proof.
func (h Handlers) GetReceipt(x *edge.Exchange) error {
	text, err := h.api.Receipt(x.Context(), CallerOf(x), x.Vars["id"])
	return ReplyReceipt(x, x.Vars["id"], text, err)
}

// ReplyReceipt answers a payment's receipt, as a file.
func ReplyReceipt(x *edge.Exchange, id string, text []byte, err error) error {
	if err == nil {
		x.Header().Set("Content-Disposition", `attachment; filename="`+id+`.receipt"`)
		x.ReplyBytes(http.StatusOK, "text/plain; charset=utf-8", text)
	}
	return err
}

// Receipt proves a payment's events under a fresh checkpoint: see package translog. Needs audit.
func (a *API) Receipt(ctx context.Context, c Caller, id string) ([]byte, error) {
	if err := a.Admit(&c, projects.Audit, nil); err != nil {
		return nil, err
	}
	p, err := a.payment(ctx, c, id)
	if err != nil {
		return nil, err
	}
	signed, err := a.Checkpoint(ctx, c)
	if err != nil {
		return nil, err
	}
	r := translog.Receipt{Payment: p.ID, Checkpoint: signed}
	stated, err := translog.Stated(signed)
	for e, err := range a.cfg.Ledger.Store.Load(ctx, eventstore.PaymentStream(p.Project, p.ID)) {
		if err != nil {
			return nil, err
		}
		if e.Position > stated.Size {
			break
		}
		proof, err := a.cfg.Views.Inclusion(ctx, e.Position, stated.Size)
		if err != nil {
			return nil, err
		}
		r.Events = append(r.Events, translog.ProvenEvent{Position: e.Position, Body: e.Body, Hashes: proof.Hashes})
	}
	if err == nil && len(r.Events) == 0 {
		err = edge.Unavailable("5", "The newest signed checkpoint is older than the payment, and no newer one is signed here. "+
			"Ask again while the server runs, or as a user who can write to the data directory.")
	}
	return r.Text(), err
}

// GetInclusionProof answers GET /v1/log/proof/inclusion: that the event at a position is in the log
// of a size.
func (h Handlers) GetInclusionProof(x *edge.Exchange) error {
	position, size, err := bounds(x, "position", "size")
	if err != nil {
		return err
	}
	proof, err := h.api.cfg.Views.Inclusion(x.Context(), position, size)
	return x.Answer(proof, beyond("size", err))
}

// GetConsistencyProof answers GET /v1/log/proof/consistency: that the log of one size is the beginning
// of the log of a larger one.
func (h Handlers) GetConsistencyProof(x *edge.Exchange) error {
	from, to, err := bounds(x, "from", "to")
	if err != nil {
		return err
	}
	proof, err := h.api.cfg.Views.Consistency(x.Context(), from, to)
	return x.Answer(proof, beyond("to", err))
}

// bounds reads two parameters, 1 ≤ low ≤ high.
func bounds(x *edge.Exchange, low, high string) (l, h eventstore.Position, err error) {
	q, err := x.Query(low, high)
	if err != nil {
		return 0, 0, err
	}
	for _, p := range []struct {
		name string
		to   *eventstore.Position
	}{{low, &l}, {high, &h}} {
		s := q[p.name]
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

// GetTile answers GET /v1/log/tile/<L>/<N>[.p/<W>]. A tile never changes, so
// clients may keep it.
func (h Handlers) GetTile(x *edge.Exchange) error {
	t, err := translog.ParseTile(strings.TrimPrefix(x.Request.URL.EscapedPath(), LogPath+"/"))
	if err != nil {
		return wire.Problem{Code: domain.PathNotFound}
	}
	hashes, err := h.api.cfg.Views.Tile(x.Context(), t)
	if errors.Is(err, translog.ErrNoTile) {
		err = wire.Problem{Code: domain.PathNotFound, Detail: "The log has no such tile."}
	}
	if err != nil {
		return err
	}
	header := x.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Length", strconv.Itoa(len(hashes)))
	header.Set("Cache-Control", "private, max-age=31536000, immutable")
	header.Set("X-Content-Type-Options", "nosniff")
	x.WriteHeader(http.StatusOK)
	_, _ = x.Write(hashes) // an error means that the client has gone away
	return nil
}
