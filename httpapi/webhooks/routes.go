package webhooks

import (
	"context"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// Path is where a project's own key reaches its endpoints.
const Path = "/v1/webhook-endpoints"

// Routes are the rows of endpoints under a path.
func (h Handlers) Routes(base string) []edge.Route {
	const write, read = domain.WebhooksWrite, domain.Read
	one := base + "/{endpoint_id}"
	event := one + "/deliveries/{event_id}"
	return []edge.Route{
		{Method: "POST", Path: base, Operation: "createWebhookEndpoint", Scope: write, Body: true, Handle: h.CreateWebhookEndpoint},
		{Method: "GET", Path: base, Operation: "listWebhookEndpoints", Scope: read, Handle: h.ListWebhookEndpoints},
		{Method: "GET", Path: one, Operation: "getWebhookEndpoint", Scope: read, Handle: h.GetWebhookEndpoint},
		{Method: "POST", Path: one, Operation: "changeWebhookEndpoint", Scope: write, Body: true, Handle: h.ChangeWebhookEndpoint},
		{Method: "DELETE", Path: one, Operation: "deleteWebhookEndpoint", Scope: write, Handle: h.DeleteWebhookEndpoint},
		{Method: "POST", Path: one + "/rotate-secret", Operation: "rotateWebhookSecret", Scope: write, Body: true, Optional: true, Handle: h.RotateWebhookSecret},
		{Method: "POST", Path: one + "/enable", Operation: "enableWebhookEndpoint", Scope: write, Body: true, Optional: true, Handle: h.EnableWebhookEndpoint},
		{Method: "POST", Path: one + "/disable", Operation: "disableWebhookEndpoint", Scope: write, Body: true, Optional: true, Handle: h.DisableWebhookEndpoint},
		{Method: "POST", Path: one + "/test", Operation: "testWebhookEndpoint", Scope: write, Body: true, Optional: true, Handle: h.TestWebhookEndpoint},
		{Method: "POST", Path: one + "/recover", Operation: "recoverDeliveries", Scope: write, Body: true, Handle: h.RecoverDeliveries},
		{Method: "GET", Path: one + "/deliveries", Operation: "listDeliveries", Scope: read, Handle: h.ListDeliveries},
		{Method: "GET", Path: event, Operation: "getDelivery", Scope: read, Handle: h.GetDelivery},
		{Method: "POST", Path: event + "/resend", Operation: "resendDelivery", Scope: write, Body: true, Optional: true, Handle: h.ResendDelivery},
	}
}

// endpointOf is an endpoint as its merchant sees it.
func (a *API) endpointOf(e domain.Endpoint, health domain.EndpointHealth) wire.Endpoint {
	v := wire.Endpoint{
		ID: e.ID, URL: e.URL, Kinds: e.Kinds, Description: e.Description, Status: "enabled", CreatedAt: e.CreatedAt, Health: health,
	}
	if e.Disabled != "" {
		v.Status, v.Reason, v.DisabledAt = "disabled", &e.Disabled, &e.DisabledAt
	}
	if until := e.SecretsUntil(domain.InstantOf(a.cfg.Now())); until != 0 {
		v.Previous = &until
	}
	return v
}

// endpoint finds an endpoint. Ids are compared as text; another project's
// endpoint does not exist here.
func endpoint(p domain.Project, id string) (domain.Endpoint, error) {
	e, ok := p.Endpoint(id)
	if !ok {
		return e, &domain.Refusal{Code: domain.WebhookEndpointNotFound}
	}
	return e, nil
}

// enabled finds an endpoint that must be enabled.
func enabled(p domain.Project, id string) (domain.Endpoint, error) {
	e, err := endpoint(p, id)
	if err == nil && e.Disabled != "" {
		err = &domain.Refusal{Code: domain.WebhookEndpointDisabledCode}
	}
	return e, err
}

// shown is an endpoint as it is in a project.
func (a *API) shown(ctx context.Context, p domain.Project, id string) (wire.Endpoint, error) {
	e, err := endpoint(p, id)
	if err != nil {
		return wire.Endpoint{}, err
	}
	health, err := a.cfg.Webhooks.Health(ctx, e.ID)
	return a.endpointOf(e, health), err
}

// changeEndpoint runs a command about an endpoint under an event id, whose
// time is the command's.
func (a *API) changeEndpoint(ctx context.Context, project, id string, event domain.ID, cmd domain.ProjectCommand) (domain.Project, error) {
	res, err := eventstore.Execute(ctx, a.cfg.Ledger, eventstore.ProjectStream(project), domain.Project{ID: project}, cmd,
		eventstore.Order{EventID: event})
	if err == nil {
		a.cfg.Webhooks.Changed(id)
	}
	return res.State, err
}
