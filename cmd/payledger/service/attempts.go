package service

import (
	"context"
	"errors"
	"net/http"

	"payledger/cmd/payledger/routesfile"
	"payledger/domain"
	"payledger/httpapi/checkout"
	"payledger/notifier/collect"
	"payledger/notifier/connector"
)

// attempts are the collector as the payment page reaches it.
type attempts struct {
	*collect.Collector
	routes *routes
}

// Provider is the name of the provider behind a route.
func (a attempts) Provider(route string) (name string, ok bool) {
	opened := a.routes.set.Routes().Connectors[route]
	if opened.Connector == nil {
		return "", false
	}
	for _, t := range routesfile.Types() {
		if t.Name == opened.Type {
			return t.Title, true
		}
	}
	return "", true
}

// Obstacle is what keeps the payment's customer from paying.
func (a attempts) Obstacle(p domain.Payment) checkout.Obstacle {
	if p.Route == "" {
		inUse, paused := a.routes.rules()
		_, ok := inUse.Choose(p.Amount, p.Currency, 0)
		if _, waits := paused.Choose(p.Amount, p.Currency, 0); p.Status == domain.Created && !ok && waits {
			return checkout.RoutePaused // each that takes it is
		}
	} else if a.routes.acts.paused(p.Route) {
		return checkout.RoutePaused
	}
	if _, asked := a.routes.set.Connector(p.Route); !asked && len(p.Attempts) > 0 {
		return checkout.RouteGone
	}
	return ""
}

// ask has the provider of a payment asked now, for the operator.
func (a *app) ask(ctx context.Context, payment domain.ID) error {
	err := a.collector.Ask(ctx, payment)
	if errors.Is(err, collect.ErrNoConnector) {
		return &domain.Refusal{Code: domain.NoConnector}
	}
	return err
}

// notifications are the routes' connectors as those who send notifications reach
// them.
type notifications struct {
	set *connector.Set
	// judge judges a provider's notification for a route. Errors: connector.ErrForged, a
	// *connector.RefusedError for one that is malformed; after all others the provider has to send it
	// again.
	judge func(ctx context.Context, route string, header http.Header, body []byte) error
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
