package webhooks

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// on runs an operation on the endpoint that a path names and answers what
// comes of it.
func on[T any](h Handlers, x *edge.Exchange, status int, do func(context.Context, merchant.Caller, string) (T, error)) error {
	c, err := h.caller(x)
	if err != nil {
		return err
	}
	out, err := do(x.Context(), c, x.Vars["endpoint_id"])
	if err != nil {
		return err
	}
	return x.Reply(status, out)
}

// CreateWebhookEndpoint answers POST …/webhook-endpoints.
func (h Handlers) CreateWebhookEndpoint(x *edge.Exchange) error {
	c, err := h.caller(x)
	if err != nil {
		return err
	}
	req, err := readEndpoint(x.Body)
	if err != nil {
		return err
	}
	made, err := h.api.AddEndpoint(x.Context(), c, req)
	if err != nil {
		return err
	}
	x.Header().Set("Location", x.Request.URL.EscapedPath()+"/"+made.ID)
	return x.Reply(http.StatusCreated, made)
}

// AddEndpoint adds an endpoint. Its secret is in this answer and in no later
// one. Needs webhooks:write.
func (a *API) AddEndpoint(ctx context.Context, c merchant.Caller, req EndpointRequest) (made wire.Endpoint, err error) {
	if err := a.m.Admit(&c, domain.WebhooksWrite, nil); err != nil {
		return made, err
	}
	edit, err := a.edit(req, true)
	if err != nil {
		return made, err
	}
	object, event := a.cfg.IDs.Pair()
	id := "we_" + object.String()
	version := a.cfg.Webhooks.KeyVersion()
	secret, err := a.cfg.Webhooks.Secret(id, domain.Secret{Generation: 1, KeyVersion: version})
	if err != nil {
		return made, err
	}
	p, err := a.changeEndpoint(ctx, c.Project.ID, id, event, domain.AddEndpoint{
		At: domain.IDTime(event), EndpointID: id, URL: *edit.URL, Kinds: edit.Kinds, Description: edit.Description, KeyVersion: version,
	})
	if err != nil {
		return made, err
	}
	e, _ := p.Endpoint(id)
	made = a.endpointOf(e, domain.EndpointHealth{})
	made.Secret = secret
	return made, nil
}

// ListWebhookEndpoints answers GET …/webhook-endpoints.
func (h Handlers) ListWebhookEndpoints(x *edge.Exchange) error {
	c, err := h.caller(x)
	if err != nil {
		return err
	}
	values, err := x.Values()
	if err != nil {
		return err
	}
	page, err := h.api.Endpoints(x.Context(), c, values)
	if err != nil {
		return err
	}
	return edge.ReplyPage(x, page)
}

// Endpoints lists endpoints, newest first. Needs read.
func (a *API) Endpoints(ctx context.Context, c merchant.Caller, values url.Values) (page wire.Page[wire.Endpoint], err error) {
	if err := a.m.Admit(&c, domain.Read, nil); err != nil {
		return page, err
	}
	l, err := edge.ParseList(values, "listWebhookEndpoints", c.Project.ID)
	if err != nil {
		return page, err
	}
	all := slices.Clone(c.Project.Endpoints)
	slices.SortFunc(all, func(a, b domain.Endpoint) int { return strings.Compare(b.ID, a.ID) })
	if l.Place != "" {
		all = slices.DeleteFunc(all, func(e domain.Endpoint) bool { return e.ID >= l.Place })
	}
	last := ""
	if len(all) > l.Limit {
		all = all[:l.Limit]
		last = all[len(all)-1].ID
	}
	rows := make([]wire.Endpoint, 0, len(all))
	for _, e := range all {
		health, err := a.cfg.Webhooks.Health(ctx, e.ID)
		if err != nil {
			return page, err
		}
		rows = append(rows, a.endpointOf(e, health))
	}
	return edge.PageOf(l, rows, last), nil
}

// GetWebhookEndpoint answers GET …/webhook-endpoints/{endpoint_id}.
func (h Handlers) GetWebhookEndpoint(x *edge.Exchange) error {
	return on(h, x, http.StatusOK, h.api.Endpoint)
}

// Endpoint finds an endpoint. Needs read.
func (a *API) Endpoint(ctx context.Context, c merchant.Caller, id string) (wire.Endpoint, error) {
	if err := a.m.Admit(&c, domain.Read, nil); err != nil {
		return wire.Endpoint{}, err
	}
	return a.shown(ctx, c.Project, id)
}

// ChangeWebhookEndpoint answers POST …/webhook-endpoints/{endpoint_id}.
func (h Handlers) ChangeWebhookEndpoint(x *edge.Exchange) error {
	req, err := readEndpoint(x.Body)
	if err != nil {
		return err
	}
	return on(h, x, http.StatusOK, func(ctx context.Context, c merchant.Caller, id string) (wire.Endpoint, error) {
		return h.api.ChangeEndpoint(ctx, c, id, req)
	})
}

// ChangeEndpoint changes what the request names. Needs webhooks:write.
func (a *API) ChangeEndpoint(ctx context.Context, c merchant.Caller, id string, req EndpointRequest) (wire.Endpoint, error) {
	if err := a.m.Admit(&c, domain.WebhooksWrite, nil); err != nil {
		return wire.Endpoint{}, err
	}
	edit, err := a.edit(req, false)
	if err != nil {
		return wire.Endpoint{}, err
	}
	edit.EndpointID = id
	return a.changed(ctx, c, id, a.cfg.IDs.Next(), edit)
}

// changed runs a command on an endpoint and answers the endpoint after it.
func (a *API) changed(ctx context.Context, c merchant.Caller, id string, event domain.ID, cmd domain.ProjectCommand) (wire.Endpoint, error) {
	p, err := a.changeEndpoint(ctx, c.Project.ID, id, event, cmd)
	if err != nil {
		return wire.Endpoint{}, err
	}
	return a.shown(ctx, p, id)
}

// DeleteWebhookEndpoint answers DELETE …/webhook-endpoints/{endpoint_id}.
func (h Handlers) DeleteWebhookEndpoint(x *edge.Exchange) error {
	c, err := h.caller(x)
	if err != nil {
		return err
	}
	if err := h.api.RemoveEndpoint(x.Context(), c, x.Vars["endpoint_id"]); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// RemoveEndpoint removes an endpoint for ever. Needs webhooks:write.
func (a *API) RemoveEndpoint(ctx context.Context, c merchant.Caller, id string) error {
	if err := a.m.Admit(&c, domain.WebhooksWrite, nil); err != nil {
		return err
	}
	_, err := a.changeEndpoint(ctx, c.Project.ID, id, a.cfg.IDs.Next(), domain.RemoveEndpoint{EndpointID: id})
	return err
}

// RotateWebhookSecret answers POST …/rotate-secret.
func (h Handlers) RotateWebhookSecret(x *edge.Exchange) error {
	overlap, err := overlapOf(x.Body)
	if err != nil {
		return err
	}
	return on(h, x, http.StatusOK, func(ctx context.Context, c merchant.Caller, id string) (wire.Endpoint, error) {
		return h.api.RotateSecret(ctx, c, id, overlap)
	})
}

// RotateSecret gives an endpoint a new secret, which is in this answer and in
// no later one. The one before signs too for the time of overlap, 0 to
// domain.MaxSecretOverlap. Needs webhooks:write.
func (a *API) RotateSecret(ctx context.Context, c merchant.Caller, id string, overlap time.Duration) (v wire.Endpoint, err error) {
	if err := a.m.Admit(&c, domain.WebhooksWrite, nil); err != nil {
		return v, err
	}
	if overlap < 0 || overlap > domain.MaxSecretOverlap {
		return v, domain.FieldErrors{{Field: "overlap_seconds", Code: domain.InvalidValue}}
	}
	e, err := endpoint(c.Project, id)
	if err != nil {
		return v, err
	}
	// Before the rotation: nothing may fail once there is a secret to show.
	health, err := a.cfg.Webhooks.Health(ctx, e.ID)
	if err != nil {
		return v, err
	}
	event := a.cfg.IDs.Next()
	p, err := a.changeEndpoint(ctx, c.Project.ID, e.ID, event, domain.RotateSecret{
		At: domain.IDTime(event), EndpointID: e.ID, Overlap: overlap, KeyVersion: a.cfg.Webhooks.KeyVersion(),
	})
	if err != nil {
		return v, err
	}
	e, _ = p.Endpoint(e.ID)
	v = a.endpointOf(e, health)
	v.Secret, err = a.cfg.Webhooks.Secret(e.ID, e.Secret)
	return v, err
}

// EnableWebhookEndpoint answers POST …/enable.
func (h Handlers) EnableWebhookEndpoint(x *edge.Exchange) error {
	if err := edge.NoMembers(x.Body); err != nil {
		return err
	}
	return on(h, x, http.StatusOK, h.api.EnableEndpoint)
}

// EnableEndpoint has notifications sent again. Needs webhooks:write.
func (a *API) EnableEndpoint(ctx context.Context, c merchant.Caller, id string) (wire.Endpoint, error) {
	if err := a.m.Admit(&c, domain.WebhooksWrite, nil); err != nil {
		return wire.Endpoint{}, err
	}
	return a.changed(ctx, c, id, a.cfg.IDs.Next(), domain.EnableEndpoint{EndpointID: id})
}

// DisableWebhookEndpoint answers POST …/disable.
func (h Handlers) DisableWebhookEndpoint(x *edge.Exchange) error {
	if err := edge.NoMembers(x.Body); err != nil {
		return err
	}
	return on(h, x, http.StatusOK, h.api.DisableEndpoint)
}

// DisableEndpoint has no notifications sent until it is enabled. Needs
// webhooks:write.
func (a *API) DisableEndpoint(ctx context.Context, c merchant.Caller, id string) (wire.Endpoint, error) {
	if err := a.m.Admit(&c, domain.WebhooksWrite, nil); err != nil {
		return wire.Endpoint{}, err
	}
	event := a.cfg.IDs.Next()
	return a.changed(ctx, c, id, event, domain.DisableEndpoint{At: domain.IDTime(event), EndpointID: id, Reason: domain.DisabledByRequest})
}

// EndpointRequest is what an endpoint is to be. What is nil was left out, and
// stays as it is.
type EndpointRequest struct {
	URL         *string
	Kinds       []domain.Kind // nil: the final ones of a new endpoint
	Description *string

	faults domain.FieldErrors // of the body it was read from
}

// readEndpoint reads a body. What is null counts as absent.
func readEndpoint(body []byte) (req EndpointRequest, err error) {
	members, err := edge.DecodeObject(body)
	if err != nil {
		return req, err
	}
	var fields domain.FieldErrors
	refuse := func(f *domain.FieldError) { fields = append(fields, f) }
	for _, m := range members {
		known := m.Name == "url" || m.Name == "kinds" || m.Name == "description"
		ok := true
		switch {
		case !known:
			refuse(&domain.FieldError{Field: m.Name, Code: domain.UnknownField})
		case m.Value.Kind() == 'n':
		case m.Name == "kinds":
			var all []string
			if all, ok = edge.TextsOf(m.Value); ok && len(all) == 0 {
				refuse(&domain.FieldError{Field: m.Name, Code: domain.InvalidValue, Allowed: edge.Texts(domain.Kinds())})
			}
			for _, k := range all {
				req.Kinds = append(req.Kinds, domain.Kind(k))
			}
		default:
			var s string
			if s, ok = edge.Text(m.Value); !ok {
				break
			}
			if m.Name == "url" {
				req.URL = &s
			} else {
				req.Description = &s
			}
		}
		if !ok {
			refuse(&domain.FieldError{Field: m.Name, Code: domain.WrongType})
		}
	}
	req.faults = fields
	return req, nil
}

// edit is what is asked for, if all of it is acceptable.
func (a *API) edit(req EndpointRequest, isNew bool) (domain.EditEndpoint, error) {
	edit := domain.EditEndpoint{URL: req.URL, Kinds: req.Kinds, Description: req.Description}
	more := edit.Validate()
	switch {
	case edit.URL == nil && isNew:
		more = append(more, &domain.FieldError{Field: "url", Code: domain.Required})
	case edit.URL != nil && !more.Has("url"):
		if why := a.cfg.Webhooks.CheckTarget(*edit.URL); why != nil {
			more = append(more, &domain.FieldError{Field: "url", Code: domain.TargetNotAllowed, Why: why.Error()})
		}
	}
	if faults := edge.Alongside(req.faults, more); len(faults) > 0 {
		return edit, edge.InOrder(faults)
	}
	return edit, nil
}
