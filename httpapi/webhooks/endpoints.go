package webhooks

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// Add adds an endpoint. Its secret is in this answer and in no later one, but those to
// the same request for merchant.ShownAgain. Needs webhooks:write.
func (a *API) Add(ctx context.Context, c merchant.Caller, req Request) (made wire.Endpoint, err error) {
	if err := a.check(&c, req, true); err != nil {
		return made, err
	}
	object, event := a.cfg.IDs.Pair()
	if req.Random != nil {
		copy(object[len(object)-len(req.Random):], req.Random[:])
	}
	id := "we_" + object.String()
	version := a.cfg.Webhooks.KeyVersion()
	e, added, err := a.execute(ctx, &c, id, event, projects.AddEndpoint{
		At: domain.IDTime(event), EndpointID: id, URL: *req.URL, Kinds: req.Kinds, Description: req.Description, KeyVersion: version,
	})
	if err != nil {
		return made, err
	}
	made = a.shown(domain.EndpointHealth{}, e)
	if added || e.Secret.Generation == 1 && a.cfg.Now().Sub(e.CreatedAt.Time()) <= merchant.ShownAgain {
		made.Secret, err = a.cfg.Webhooks.Secret(e.ID, e.Secret)
	}
	return made, err
}

// Endpoints lists endpoints, newest first. Needs read.
func (a *API) Endpoints(ctx context.Context, c merchant.Caller, values url.Values) (page wire.Page[wire.Endpoint], err error) {
	if err := a.m.Admit(&c, projects.Read, nil); err != nil {
		return page, err
	}
	l, err := edge.ParseList(values, "listWebhookEndpoints", c.Project.ID)
	if err != nil {
		return page, err
	}
	all := slices.Clone(c.Project.Endpoints)
	slices.SortFunc(all, func(a, b projects.Endpoint) int { return strings.Compare(b.ID, a.ID) })
	if l.After != "" {
		all = slices.DeleteFunc(all, func(e projects.Endpoint) bool { return e.ID >= l.After })
	}
	last := ""
	if len(all) > l.Limit {
		all = all[:l.Limit]
		last = all[len(all)-1].ID
	}
	health, err := a.m.Healths(ctx, all)
	if err != nil {
		return page, err
	}
	rows := make([]wire.Endpoint, len(all))
	for i, e := range all {
		rows[i] = a.shown(health[i], e)
	}
	return edge.PageOf(l, rows, last), nil
}

// Endpoint finds an endpoint. Needs read.
func (a *API) Endpoint(ctx context.Context, c merchant.Caller, id string) (wire.Endpoint, error) {
	e, err := a.find(&c, projects.Read, id)
	if err != nil {
		return wire.Endpoint{}, err
	}
	health, err := a.cfg.Webhooks.Health(ctx, e.ID)
	return a.shown(health, e), err
}

// Change changes what the request names. Needs webhooks:write.
func (a *API) Change(ctx context.Context, c merchant.Caller, id string, req Request) (wire.Endpoint, error) {
	if err := a.check(&c, req, false); err != nil {
		return wire.Endpoint{}, err
	}
	req.EndpointID = id
	return a.change(ctx, &c, id, a.cfg.IDs.Next(), req.EditEndpoint)
}

// Remove removes an endpoint permanently. Needs webhooks:write.
func (a *API) Remove(ctx context.Context, c merchant.Caller, id string) error {
	_, _, err := a.execute(ctx, &c, id, a.cfg.IDs.Next(), projects.RemoveEndpoint{EndpointID: id})
	return err
}

// Enable has notifications sent again. Needs webhooks:write.
func (a *API) Enable(ctx context.Context, c merchant.Caller, id string) (wire.Endpoint, error) {
	return a.change(ctx, &c, id, a.cfg.IDs.Next(), projects.EnableEndpoint{EndpointID: id})
}

// Disable has no notifications sent until the endpoint is enabled. Needs
// webhooks:write.
func (a *API) Disable(ctx context.Context, c merchant.Caller, id string) (wire.Endpoint, error) {
	event := a.cfg.IDs.Next()
	return a.change(ctx, &c, id, event, projects.DisableEndpoint{At: domain.IDTime(event), EndpointID: id, Reason: projects.DisabledByRequest})
}

// Rotation is a request for a new secret. The previous one signs too for the time of Overlap, 0 to
// projects.MaxSecretOverlap. With From, the generation that the sender saw, it counts once, and
// answers without a secret if it came too late; 0: it rotates any generation.
type Rotation struct {
	Overlap time.Duration
	From    int
}

// RotateSecret gives an endpoint a new secret, which is only in this answer: a repeat cannot be
// told from another request for the same generation. Needs webhooks:write.
func (a *API) RotateSecret(ctx context.Context, c merchant.Caller, id string, r Rotation) (v wire.Endpoint, err error) {
	e, err := a.find(&c, projects.WebhooksWrite, id)
	if err != nil {
		return v, err
	}
	// Before the rotation: nothing may fail once there is a secret to show.
	health, err := a.cfg.Webhooks.Health(ctx, e.ID)
	if err != nil {
		return v, err
	}
	event := a.cfg.IDs.Next()
	e, rotated, err := a.execute(ctx, &c, id, event, projects.RotateSecret{
		At: domain.IDTime(event), EndpointID: id, Overlap: r.Overlap, KeyVersion: a.cfg.Webhooks.KeyVersion(), From: r.From,
	})
	if err != nil {
		return v, err
	}
	v = a.shown(health, e)
	if rotated {
		v.Secret, err = a.cfg.Webhooks.Secret(e.ID, e.Secret)
	}
	return v, err
}

// check admits a caller and refuses a request that cannot be accepted.
func (a *API) check(c *merchant.Caller, req Request, isNew bool) error {
	if err := a.m.Admit(c, projects.WebhooksWrite, nil); err != nil {
		return err
	}
	more := req.Validate()
	switch {
	case req.URL == nil && isNew:
		more = append(more, &domain.FieldError{Field: "url", Code: domain.Required})
	case req.URL != nil && !more.Has("url"):
		if why := edge.URLFault(*req.URL); why != "" {
			more = append(more, &domain.FieldError{Field: "url", Code: domain.InvalidValue, Why: why})
		} else if why := a.cfg.Webhooks.CheckTarget(*req.URL); why != nil {
			more = append(more, &domain.FieldError{Field: "url", Code: domain.TargetNotAllowed, Why: why.Error()})
		}
	}
	if faults := edge.Merge(req.faults, more); len(faults) > 0 {
		return edge.InOrder(faults)
	}
	return nil
}
