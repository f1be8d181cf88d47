package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"payledger/domain"
	"payledger/httpapi/conns"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"

	"github.com/rs/zerolog"
)

// maxNotification is the longest body of a notification, in bytes.
const maxNotification = 256 << 10

// bodyTime is how long a body may take to arrive.
const bodyTime = 10 * time.Second

// How often a public address may send notifications. Addresses of this machine and of private
// networks, where proxies are, have no rate and no share.
const (
	perSecond = 100
	burst     = 500
)

// maxForged bounds the lines about forged notifications in the log, a minute. Like
// all answers they are counted in payledger_http_requests_total.
const maxForged = 60

// retryAfter is when to send what cannot be judged now again, in seconds.
const retryAfter = "30"

// Connectors judge notifications.
type Connectors interface {
	// Takes reports whether the route has a connector.
	Takes(route string) bool

	// Notify judges a notification. It returns nil once its effect is on disk, also when it has none.
	// Refusals are *domain.Refusal: NotificationForged, NotificationMalformed or RouteNotFound. After
	// any other error the provider is to send it again. It keeps neither header nor body.
	Notify(ctx context.Context, route string, header http.Header, body []byte) error
}

// notified takes the notifications that providers send about their attempts: POST
// /connectors/{route}, outside /v1 and without an API key.
//
// A request may come from anybody, so it costs little: the route must have a
// connector, a body has maxNotification bytes and bodyTime, each route takes only so
// many at a time, and each address has its share of them and its rate. What a
// notification says is judged by the connector's rule alone. The answer is 2xx once what
// it led to is on disk; after any other answer the provider sends it again.
type notified struct {
	connectors Connectors
	now        func() time.Time
	limit      *edge.Limiter
	rate       edge.Rate // of an address
	forged     zerolog.Logger
	places     places
}

func newNotified(c Config) *notified {
	h := &notified{
		connectors: c.Connectors, now: c.Now, places: places{taken: make(map[string][]*place)}, limit: edge.NewLimiter("notifications"),
		forged: c.Log.Sample(&zerolog.BurstSampler{Burst: maxForged, Period: time.Minute}),
	}
	if c.Limits.RateCustomers > 0 {
		h.rate = edge.Rate{PerSecond: perSecond, Burst: burst}
	}
	return h
}

// notify answers POST /connectors/{route}. The connection ends after the answer unless the body was read
// to its end.
func (h *notified) notify(x *edge.Exchange) error {
	x.Header().Set("Connection", "close")
	route := x.Vars["route"]
	if !domain.ValidRoute(route) || !h.connectors.Takes(route) {
		return &domain.Refusal{Code: domain.RouteNotFound}
	}
	address := conns.Public(x.Request)
	if address != "" {
		if err := h.limit.Allow(address, h.rate, h.now(), x.Header()); err != nil {
			return err
		}
	}
	if x.Request.ContentLength > maxNotification {
		return tooLarge()
	}
	// The body's time limit is the connection's read deadline, which then closes it.
	control := http.NewResponseController(x.ResponseWriter)
	if err := control.SetReadDeadline(time.Now().Add(bodyTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return bodyCutShort()
	}
	p := &place{route: route, address: address, cut: func() { _ = control.SetReadDeadline(time.Now()) }}
	if !h.places.take(p) {
		return tooMany()
	}
	defer h.places.leave(p)
	body, err := io.ReadAll(http.MaxBytesReader(x.ResponseWriter, x.Request.Body, maxNotification))
	switch {
	case !h.places.read(p):
		return tooMany()
	case errors.As(err, new(*http.MaxBytesError)):
		return tooLarge()
	case err != nil:
		return bodyCutShort()
	}
	x.Header().Del("Connection")
	err = h.connectors.Notify(x.Context(), route, x.Request.Header, body)
	var refusal *domain.Refusal
	switch {
	case err == nil:
		x.ReplyBytes(http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
		return nil
	case errors.As(err, &refusal) && refusal.Code == domain.NotificationForged:
		h.forged.Warn().Str("route", route).Str("client", conns.Visitor(x.Request)).Int("bytes", len(body)).
			Msg("a notification is not the provider's: it is forged, or the connector's secret is not the provider's")
		return refusal
	case errors.As(err, &refusal):
		return refusal
	}
	return errors.Join(edge.Unavailable(retryAfter, "The notification cannot be judged now. Send it again."), err)
}

func tooLarge() wire.Problem {
	return wire.Problem{Code: domain.BodyTooLarge, Detail: "A notification has 256 KiB at most."}
}

func tooMany() wire.Problem {
	return edge.Unavailable("1", "Too many notifications are being read and judged just now.")
}

func bodyCutShort() wire.Problem {
	return wire.Problem{Code: domain.NotificationMalformed, Detail: "The body did not arrive as a whole, or not in time."}
}
