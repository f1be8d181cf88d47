package nodelanes

import (
	"context"
	"errors"
	"sync/atomic"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/notifier/delivery"
	"payledger/notifier/webhook"
)

// door is the deliveries of a node of a cluster as requests reach them: those of
// the sequencer are answered, those of others asked to try another server.
type door struct {
	lanes   atomic.Pointer[delivery.Lanes] // nil: another node is the sequencer
	secrets *webhook.Secrets
	check   func(url string) error
}

// here are the lanes, if this node has them. What asks a follower may ask again: it
// may reach another node.
func (d *door) here() (*delivery.Lanes, error) {
	if lanes := d.lanes.Load(); lanes != nil {
		return lanes, nil
	}
	return nil, edge.Unavailable("1", "Another server sends the webhooks. Try again; nothing was changed.")
}

// Secret implements merchant.Webhooks, as do all of these.
func (d *door) Secret(endpoint string, s projects.Secret) (string, error) {
	return d.secrets.Secret(endpoint, s.KeyVersion, s.Generation)
}

// KeyVersion implements merchant.Webhooks.
func (d *door) KeyVersion() int { return d.secrets.Current() }

// CheckTarget implements merchant.Webhooks.
func (d *door) CheckTarget(url string) error { return d.check(url) }

// Changed implements merchant.Webhooks. Elsewhere the change is found at the next try.
func (d *door) Changed(endpoint string) {
	if lanes, err := d.here(); err == nil {
		lanes.Changed(endpoint)
	}
}

// Test implements merchant.Webhooks.
func (d *door) Test(ctx context.Context, project, endpoint string) (o domain.DeliveryObject, err error) {
	lanes, err := d.here()
	if err != nil {
		return o, err
	}
	return lanes.Test(ctx, project, endpoint)
}

// Resend implements merchant.Webhooks.
func (d *door) Resend(ctx context.Context, project, endpoint string, event domain.ID) (o domain.DeliveryObject, err error) {
	lanes, err := d.here()
	if err != nil {
		return o, err
	}
	return lanes.Resend(ctx, project, endpoint, event)
}

// RecoverSince implements merchant.Webhooks.
func (d *door) RecoverSince(ctx context.Context, project, endpoint string, since domain.Instant) (int, error) {
	lanes, err := d.here()
	if err != nil {
		return 0, err
	}
	return lanes.RecoverSince(ctx, project, endpoint, since)
}

// Deliveries implements merchant.Webhooks.
func (d *door) Deliveries(ctx context.Context, f domain.DeliveryFilter) (p domain.DeliveryPage, err error) {
	lanes, err := d.here()
	if err != nil {
		return p, err
	}
	return lanes.Deliveries(ctx, f)
}

// Health implements merchant.Webhooks. A node without lanes knows no endpoint.
func (d *door) Health(ctx context.Context, endpoint string) (h domain.EndpointHealth, err error) {
	lanes, err := d.here()
	if err != nil {
		return h, nil //nolint:nilerr // the endpoint itself is shown all the same
	}
	h, err = lanes.Health(ctx, endpoint)
	if errors.Is(err, delivery.ErrClosed) {
		err = nil
	}
	return h, err
}
