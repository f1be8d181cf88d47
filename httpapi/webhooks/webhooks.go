package webhooks

import (
	"context"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// API does what merchants ask for about their webhook endpoints. An operation
// is a method that takes a context, the Caller and its input, and answers an
// output or an error, as those of merchant.API do. Safe for concurrent use.
type API struct {
	cfg merchant.Config
	m   *merchant.API // admits callers and finds their payments
}

// New returns the operations on webhook endpoints. The configuration of m has Webhooks.
func New(m *merchant.API) *API { return &API{cfg: m.Config(), m: m} }

// Every operation begins with find, findEnabled, execute or, where its input is checked before the
// endpoint is looked up, with Admit.

// find admits a caller and finds one of its endpoints. Ids are compared as
// text; another project's endpoint does not exist here.
func (a *API) find(c *merchant.Caller, need projects.Scope, id string) (projects.Endpoint, error) {
	if err := a.m.Admit(c, need, nil); err != nil {
		return projects.Endpoint{}, err
	}
	e, ok := c.Project.Endpoint(id)
	if !ok {
		return e, &domain.Refusal{Code: domain.WebhookEndpointNotFound}
	}
	return e, nil
}

// findEnabled admits a caller that has something sent, and finds the endpoint,
// which must be enabled.
func (a *API) findEnabled(c *merchant.Caller, id string) (projects.Endpoint, error) {
	e, err := a.find(c, projects.WebhooksWrite, id)
	if err == nil && e.Disabled != "" {
		err = &domain.Refusal{Code: domain.WebhookEndpointDisabledCode}
	}
	return e, err
}

// execute admits a caller and runs a command on one of its endpoints, which the
// command finds. It answers the endpoint after it, the zero value if there is
// none, and whether there was something to do. The time of the event's id is the
// command's.
func (a *API) execute(
	ctx context.Context, c *merchant.Caller, id string, event domain.ID, cmd projects.ProjectCommand,
) (e projects.Endpoint, changed bool, err error) {
	if err := a.m.Admit(c, projects.WebhooksWrite, nil); err != nil {
		return e, false, err
	}
	res, err := a.m.Execute(ctx, c.Project.ID, cmd, eventstore.Order{EventID: event, Cause: c.Cause()})
	if err != nil {
		return e, false, err
	}
	e, _ = res.State.EndpointMade(id)
	return e, res.Event != nil, nil
}

// change is execute with the answer of most commands. What was recorded is answered
// even where the health cannot be had, which is then zero.
func (a *API) change(ctx context.Context, c *merchant.Caller, id string, event domain.ID, cmd projects.ProjectCommand) (wire.Endpoint, error) {
	e, _, err := a.execute(ctx, c, id, event, cmd)
	if err != nil {
		return wire.Endpoint{}, err
	}
	health, err := a.cfg.Webhooks.Health(ctx, e.ID)
	if err != nil {
		health = domain.EndpointHealth{}
	}
	return a.shown(health, e), nil
}

// shown is an endpoint as its merchant sees it.
func (a *API) shown(health domain.EndpointHealth, e projects.Endpoint) wire.Endpoint {
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
