package service

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/exit"
	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/edge"
	"payledger/notifier/delivery"
	"payledger/notifier/health"
	"payledger/notifier/webhook"
)

// nodeLanes are the deliveries of a node of a cluster, which has lanes only while it is
// the sequencer. What one sequencer knew of deliveries the next one does not know: it
// makes the lanes anew from the log, by which the newest event of each payment of the
// last 30 days is sent again, and earlier outcomes are listed.
//
// No webhook goes backward. An attempt begins with a true read of the log, which a
// node that was deposed cannot make once another one has published anything; and the
// new one begins to send when attempts that began before that have ended (handOver).
type nodeLanes struct {
	lanes   atomic.Pointer[delivery.Lanes]
	secrets *webhook.Secrets
	check   func(url string) error
}

// handOver is longer than an attempt to notify an endpoint takes.
const handOver = 20 * time.Second

// takeOver makes fresh lanes. release closes them, once nothing uses them any more.
func (d *deliveries) takeOver(ctx context.Context, dir datadir.Dir) (*delivery.Lanes, error) {
	for _, name := range []string{dir.Lanes(), dir.LanesMark()} {
		if err := datadir.RemoveIfExists(name); err != nil {
			return nil, exit.With(exit.Directory, "removing the lanes of an earlier time as the sequencer: %w", err)
		}
	}
	lanes, err := delivery.Open(ctx, d.config)
	if err != nil {
		return nil, exit.With(exit.Directory, "opening the lanes of webhook deliveries: %w", err)
	}
	d.node.lanes.Store(lanes)
	return lanes, nil
}

func (d *deliveries) release(lanes *delivery.Lanes) error {
	d.node.lanes.Store(nil)
	return lanes.Close()
}

// sendLate sends what is in the lanes when nobody else can send any more.
func sendLate(ctx context.Context, lanes *delivery.Lanes) error {
	if !health.Pause(ctx, handOver) {
		return nil
	}
	return send(ctx, lanes)
}

// here are the lanes, if this node has them. What asks a follower may ask again: it
// may reach another node.
func (n *nodeLanes) here() (*delivery.Lanes, error) {
	if lanes := n.lanes.Load(); lanes != nil {
		return lanes, nil
	}
	return nil, edge.Unavailable("1", "Another server sends the webhooks. Try again; nothing was changed.")
}

// Secret implements merchant.Webhooks, as do all of these.
func (n *nodeLanes) Secret(endpoint string, s projects.Secret) (string, error) {
	return n.secrets.Secret(endpoint, s.KeyVersion, s.Generation)
}

// KeyVersion implements merchant.Webhooks.
func (n *nodeLanes) KeyVersion() int { return n.secrets.Current() }

// CheckTarget implements merchant.Webhooks.
func (n *nodeLanes) CheckTarget(url string) error { return n.check(url) }

// Changed implements merchant.Webhooks. Elsewhere the change is found at the next try.
func (n *nodeLanes) Changed(endpoint string) {
	if lanes, err := n.here(); err == nil {
		lanes.Changed(endpoint)
	}
}

// Test implements merchant.Webhooks.
func (n *nodeLanes) Test(ctx context.Context, project, endpoint string) (d domain.DeliveryObject, err error) {
	lanes, err := n.here()
	if err != nil {
		return d, err
	}
	return lanes.Test(ctx, project, endpoint)
}

// Resend implements merchant.Webhooks.
func (n *nodeLanes) Resend(ctx context.Context, project, endpoint string, event domain.ID) (d domain.DeliveryObject, err error) {
	lanes, err := n.here()
	if err != nil {
		return d, err
	}
	return lanes.Resend(ctx, project, endpoint, event)
}

// RecoverSince implements merchant.Webhooks.
func (n *nodeLanes) RecoverSince(ctx context.Context, project, endpoint string, since domain.Instant) (int, error) {
	lanes, err := n.here()
	if err != nil {
		return 0, err
	}
	return lanes.RecoverSince(ctx, project, endpoint, since)
}

// Deliveries implements merchant.Webhooks.
func (n *nodeLanes) Deliveries(ctx context.Context, f domain.DeliveryFilter) (p domain.DeliveryPage, err error) {
	lanes, err := n.here()
	if err != nil {
		return p, err
	}
	return lanes.Deliveries(ctx, f)
}

// Health implements merchant.Webhooks. A node without lanes knows no endpoint.
func (n *nodeLanes) Health(ctx context.Context, endpoint string) (h domain.EndpointHealth, err error) {
	lanes, err := n.here()
	if err != nil {
		return h, nil //nolint:nilerr // the endpoint itself is shown all the same
	}
	h, err = lanes.Health(ctx, endpoint)
	if errors.Is(err, delivery.ErrClosed) {
		err = nil
	}
	return h, err
}
