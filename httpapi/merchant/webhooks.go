package merchant

import (
	"context"
	"net/http"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// Webhooks sends notifications and knows what became of them. Whether an
// endpoint is the project's is checked before it is asked.
type Webhooks interface {
	// Secret answers a signing secret of an endpoint. KeyVersion is that of
	// the master key for new ones, with which Secret does not fail.
	Secret(endpoint string, s domain.Secret) (string, error)
	KeyVersion() int

	// Changed tells that an endpoint is not what it was, so that what waits
	// for it need not wait on.
	Changed(endpoint string)

	// CheckTarget answers nil, or why a URL may not be called, in words that
	// are shown to the merchant.
	CheckTarget(url string) error

	// Test sends endpoint.test. The refusal is webhook_endpoint_disabled.
	Test(ctx context.Context, project, endpoint string) (domain.DeliveryObject, error)

	// Resend makes a delivery pending again. Refusals are delivery_not_found,
	// delivery_superseded with the event that can be sent, and
	// webhook_endpoint_disabled.
	Resend(ctx context.Context, project, endpoint string, event domain.ID) (domain.DeliveryObject, error)

	// RecoverSince enqueues the newest snapshot of every payment of which an
	// event since the instant was not delivered, and answers how many.
	RecoverSince(ctx context.Context, project, endpoint string, since domain.Instant) (enqueued int, err error)

	// Deliveries lists deliveries, the newest first. An After that no page has
	// told is an invalid_cursor refusal.
	Deliveries(ctx context.Context, f domain.DeliveryFilter) (domain.DeliveryPage, error)

	// Health tells how deliveries to an endpoint go; of one that it does not
	// know yet, the zero value.
	Health(ctx context.Context, endpoint string) (domain.EndpointHealth, error)
}

const WebhooksPath = "/v1/webhook-endpoints"

// hooks answers requests about webhook endpoints, for whoever may speak for a
// project.
type Hooks struct {
	Cfg     Config
	Project func(*edge.Exchange) (domain.Project, error)
}

// hooks answers requests of a project's own key.
func (a *API) Hooks() Hooks {
	return Hooks{Cfg: a.cfg, Project: func(x *edge.Exchange) (domain.Project, error) { return x.Project, nil }}
}

// routes are the rows of endpoints under a path.
func (h Hooks) Routes(base string) []edge.Route {
	const write, read = domain.WebhooksWrite, domain.Read
	one := base + "/{endpoint_id}"
	event := one + "/deliveries/{event_id}"
	return []edge.Route{
		{Method: "POST", Path: base, Operation: "createWebhookEndpoint", Scope: write, Body: true, Handle: h.On(h.create)},
		{Method: "GET", Path: base, Operation: "listWebhookEndpoints", Scope: read, Handle: h.On(h.list)},
		{Method: "GET", Path: one, Operation: "getWebhookEndpoint", Scope: read, Handle: h.On(h.get)},
		{Method: "POST", Path: one, Operation: "changeWebhookEndpoint", Scope: write, Body: true, Handle: h.On(h.change)},
		{Method: "DELETE", Path: one, Operation: "deleteWebhookEndpoint", Scope: write, Handle: h.On(h.remove)},
		{Method: "POST", Path: one + "/rotate-secret", Operation: "rotateWebhookSecret", Scope: write, Body: true, Optional: true, Handle: h.On(h.rotate)},
		{Method: "POST", Path: one + "/enable", Operation: "enableWebhookEndpoint", Scope: write, Body: true, Optional: true, Handle: h.On(h.enable)},
		{Method: "POST", Path: one + "/disable", Operation: "disableWebhookEndpoint", Scope: write, Body: true, Optional: true, Handle: h.On(h.disable)},
		{Method: "POST", Path: one + "/test", Operation: "testWebhookEndpoint", Scope: write, Body: true, Optional: true, Handle: h.On(h.test)},
		{Method: "POST", Path: one + "/recover", Operation: "recoverDeliveries", Scope: write, Body: true, Handle: h.On(h.recover)},
		{Method: "GET", Path: one + "/deliveries", Operation: "listDeliveries", Scope: read, Handle: h.On(h.deliveries)},
		{Method: "GET", Path: event, Operation: "getDelivery", Scope: read, Handle: h.On(h.delivery)},
		{Method: "POST", Path: event + "/resend", Operation: "resendDelivery", Scope: write, Body: true, Optional: true, Handle: h.On(h.resend)},
	}
}

// on finds the project before a handler.
func (h Hooks) On(handle func(*edge.Exchange, domain.Project) error) func(*edge.Exchange) error {
	return func(x *edge.Exchange) error {
		p, err := h.Project(x)
		if err != nil {
			return err
		}
		return handle(x, p)
	}
}

func (h Hooks) viewOf(e domain.Endpoint, health domain.EndpointHealth) wire.Endpoint {
	v := wire.Endpoint{
		ID: e.ID, URL: e.URL, Kinds: e.Kinds, Description: e.Description, Status: "enabled", CreatedAt: e.CreatedAt, Health: health,
	}
	if e.Disabled != "" {
		v.Status, v.Reason, v.DisabledAt = "disabled", &e.Disabled, &e.DisabledAt
	}
	if until := e.SecretsUntil(domain.InstantOf(h.Cfg.Now())); until != 0 {
		v.Previous = &until
	}
	return v
}

// reply answers one endpoint as it stands in a project.
func (h Hooks) reply(x *edge.Exchange, p domain.Project) error {
	e, err := h.endpoint(x, p)
	if err != nil {
		return err
	}
	health, err := h.Cfg.Webhooks.Health(x.Context(), e.ID)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, h.viewOf(e, health))
}

// endpoint finds the endpoint a path names. Ids are compared as text; another
// project's endpoint does not exist here.
func (h Hooks) endpoint(x *edge.Exchange, p domain.Project) (domain.Endpoint, error) {
	e, ok := p.Endpoint(x.Vars["endpoint_id"])
	if !ok {
		return e, &domain.Refusal{Code: domain.WebhookEndpointNotFound}
	}
	return e, nil
}

// execute runs a command about an endpoint under an event id, whose time is
// the command's.
func (h Hooks) execute(x *edge.Exchange, p domain.Project, endpoint string, event domain.ID, cmd domain.ProjectCommand) (domain.Project, error) {
	res, err := eventstore.Execute(x.Context(), h.Cfg.Ledger, eventstore.ProjectStream(p.ID), domain.Project{ID: p.ID}, cmd,
		eventstore.Order{EventID: event})
	if err == nil {
		h.Cfg.Webhooks.Changed(endpoint)
	}
	return res.State, err
}
