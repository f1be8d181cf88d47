package httpapi

import (
	"context"
	"net/http"

	"payledger/domain"
	"payledger/eventstore"
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

const webhooksPath = "/v1/webhook-endpoints"

// hooks answers requests about webhook endpoints, for whoever may speak for a
// project.
type hooks struct {
	cfg     merchantConfig
	project func(*exchange) (domain.Project, error)
}

// hooks answers requests of a project's own key.
func (a *merchants) hooks() hooks {
	return hooks{cfg: a.cfg, project: func(x *exchange) (domain.Project, error) { return x.project, nil }}
}

// routes are the rows of endpoints under a path.
func (h hooks) routes(base string) []route {
	const write, read = domain.WebhooksWrite, domain.Read
	one := base + "/{endpoint_id}"
	event := one + "/deliveries/{event_id}"
	return []route{
		{method: "POST", path: base, operation: "createWebhookEndpoint", scope: write, body: true, handle: h.on(h.create)},
		{method: "GET", path: base, operation: "listWebhookEndpoints", scope: read, handle: h.on(h.list)},
		{method: "GET", path: one, operation: "getWebhookEndpoint", scope: read, handle: h.on(h.get)},
		{method: "POST", path: one, operation: "changeWebhookEndpoint", scope: write, body: true, handle: h.on(h.change)},
		{method: "DELETE", path: one, operation: "deleteWebhookEndpoint", scope: write, handle: h.on(h.remove)},
		{method: "POST", path: one + "/rotate-secret", operation: "rotateWebhookSecret", scope: write, body: true, optional: true, handle: h.on(h.rotate)},
		{method: "POST", path: one + "/enable", operation: "enableWebhookEndpoint", scope: write, body: true, optional: true, handle: h.on(h.enable)},
		{method: "POST", path: one + "/disable", operation: "disableWebhookEndpoint", scope: write, body: true, optional: true, handle: h.on(h.disable)},
		{method: "POST", path: one + "/test", operation: "testWebhookEndpoint", scope: write, body: true, optional: true, handle: h.on(h.test)},
		{method: "POST", path: one + "/recover", operation: "recoverDeliveries", scope: write, body: true, handle: h.on(h.recover)},
		{method: "GET", path: one + "/deliveries", operation: "listDeliveries", scope: read, handle: h.on(h.deliveries)},
		{method: "GET", path: event, operation: "getDelivery", scope: read, handle: h.on(h.delivery)},
		{method: "POST", path: event + "/resend", operation: "resendDelivery", scope: write, body: true, optional: true, handle: h.on(h.resend)},
	}
}

// on finds the project before a handler.
func (h hooks) on(handle func(*exchange, domain.Project) error) func(*exchange) error {
	return func(x *exchange) error {
		p, err := h.project(x)
		if err != nil {
			return err
		}
		return handle(x, p)
	}
}

// endpointView is an endpoint as its merchant sees it. The secret is told by
// the answers that make one and by no other.
type endpointView struct {
	ID          string                 `json:"id"`
	URL         string                 `json:"url"`
	Kinds       []domain.Kind          `json:"kinds"`
	Description *string                `json:"description"`
	Status      string                 `json:"status"`          // enabled or disabled
	Reason      *domain.DisabledReason `json:"disabled_reason"` // null while enabled, as the next
	DisabledAt  *domain.Instant        `json:"disabled_at"`
	CreatedAt   domain.Instant         `json:"created_at"`
	Secret      string                 `json:"secret,omitempty"`
	Previous    *domain.Instant        `json:"previous_secret_until"` // null when one secret signs
	Health      domain.EndpointHealth  `json:"health"`
}

func (h hooks) viewOf(e domain.Endpoint, health domain.EndpointHealth) endpointView {
	v := endpointView{
		ID: e.ID, URL: e.URL, Kinds: e.Kinds, Description: e.Description, Status: "enabled", CreatedAt: e.CreatedAt, Health: health,
	}
	if e.Disabled != "" {
		v.Status, v.Reason, v.DisabledAt = "disabled", &e.Disabled, &e.DisabledAt
	}
	if until := e.SecretsUntil(domain.InstantOf(h.cfg.Now())); until != 0 {
		v.Previous = &until
	}
	return v
}

// reply answers one endpoint as it stands in a project.
func (h hooks) reply(x *exchange, p domain.Project) error {
	e, err := h.endpoint(x, p)
	if err != nil {
		return err
	}
	health, err := h.cfg.Webhooks.Health(x.ctx(), e.ID)
	if err != nil {
		return err
	}
	return x.reply(http.StatusOK, h.viewOf(e, health))
}

// endpoint finds the endpoint a path names. Ids are compared as text; another
// project's endpoint does not exist here.
func (h hooks) endpoint(x *exchange, p domain.Project) (domain.Endpoint, error) {
	e, ok := p.Endpoint(x.vars["endpoint_id"])
	if !ok {
		return e, &domain.Refusal{Code: domain.WebhookEndpointNotFound}
	}
	return e, nil
}

// execute runs a command about an endpoint under an event id, whose time is
// the command's.
func (h hooks) execute(x *exchange, p domain.Project, endpoint string, event domain.ID, cmd domain.ProjectCommand) (domain.Project, error) {
	res, err := eventstore.Execute(x.ctx(), h.cfg.Ledger, eventstore.ProjectStream(p.ID), domain.Project{ID: p.ID}, cmd,
		eventstore.Order{EventID: event})
	if err == nil {
		h.cfg.Webhooks.Changed(endpoint)
	}
	return res.State, err
}
