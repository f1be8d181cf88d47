package service

import (
	"context"
	"errors"
	"net/http"

	"payledger/domain"
	"payledger/notifier/connector"
)

// judge judges a provider's notification for a route. Errors: connector.ErrForged,
// a *connector.RefusedError for one that is malformed; after all others the
// provider has to send it again.
type judge func(ctx context.Context, route string, header http.Header, body []byte) error

// notifications are the routes' connectors as those who send notifications reach
// them.
type notifications struct {
	set   *connector.Set
	judge judge
}

// Takes reports whether the route has a connector.
func (n notifications) Takes(route string) bool {
	_, ok := n.set.Connector(route)
	return ok
}

// Notify has the notification judged and names its refusals.
func (n notifications) Notify(ctx context.Context, route string, header http.Header, body []byte) error {
	err := n.judge(ctx, route, header, body)
	switch {
	case err == nil:
		return nil
	case !n.Takes(route):
		return &domain.Refusal{Code: domain.RouteNotFound}
	case errors.Is(err, connector.ErrForged):
		return &domain.Refusal{Code: domain.NotificationForged}
	case errors.As(err, new(*connector.RefusedError)):
		return &domain.Refusal{Code: domain.NotificationMalformed}
	}
	return err
}
