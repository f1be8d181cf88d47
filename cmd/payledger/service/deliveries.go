package service

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/members"
	"payledger/cmd/payledger/nodelanes"
	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/diskspace"
	"payledger/httpapi/merchant"
	"payledger/notifier/delivery"
	"payledger/notifier/webhook"
	"payledger/projections"
)

// deliveries are the notifications of a data directory and what sends them.
// Commands on a stopped directory have them too; only a server runs them.
type deliveries struct {
	config   delivery.Config
	sender   *webhook.Sender
	schedule webhook.Schedule
	lanes    *delivery.Lanes  // nil in a node of a cluster
	node     *nodelanes.Lanes // of a node of a cluster
}

// openDeliveries opens the lanes, which are part of no backup: where the file
// is missing, or older than its mark, they start at the newest event of each
// payment.
func openDeliveries(
	ctx context.Context, d datadir.Dir, o CoreOptions, log domain.ID, ledger eventstore.Ledger, views *projections.Engine, ids *domain.IDs, node *members.Node,
) (*deliveries, error) {
	keys, current, err := d.MasterKeys()
	if err != nil {
		return nil, err
	}
	secrets, err := webhook.NewSecrets(keys, current)
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	if o.Schedule == nil {
		o.Schedule = webhook.DefaultSchedule()
	}
	// Deliveries continue after the log is full, until half its reserve is left.
	space := diskspace.New(filepath.Dir(d.Lanes()), max(cmp.Or(o.MinFree, diskspace.DefaultFloor)/2, 1))
	version, _ := process.BuiltFrom()
	sender := webhook.NewSender(webhook.Config{AllowPrivate: o.AllowPrivate, UserAgent: "payledger/" + version, Requests: o.Webhooks})
	all := &deliveries{sender: sender, schedule: o.Schedule, config: delivery.Config{
		Path: d.Lanes(), Mark: d.LanesMark(), LogID: log, Ledger: ledger, Endpoints: views, Secrets: secrets, Sender: sender,
		Schedule: o.Schedule, IDs: ids, Now: time.Now, Log: o.Log, Full: space.Low, Metrics: o.Metrics, Tracer: o.Tracer,
		Limits: delivery.Limits{Requests: o.Webhooks},
	}}
	if node != nil {
		if all.node, err = nodelanes.Open(all.config, node); err != nil {
			sender.Close()
		}
		return all, err
	}
	if all.lanes, err = delivery.Open(ctx, all.config); err != nil {
		sender.Close()
		return nil, cli.Errorf(cli.ExitDirectory, "opening the lanes of webhook deliveries: %w", err)
	}
	return all, nil
}

// webhooks are the deliveries as requests reach them.
func (d *deliveries) webhooks() merchant.Webhooks {
	if d.node != nil {
		return d.node
	}
	return d.lanes
}

// open is how many notifications are in line, and undelivered.
func (d *deliveries) open(ctx context.Context) (pending, undelivered int, err error) {
	if d.node != nil {
		return d.node.Open(ctx)
	}
	pending, undelivered = d.lanes.Open()
	return pending, undelivered, nil
}

// send sends what is in the lanes until ctx ends.
func send(ctx context.Context, lanes *delivery.Lanes) error {
	if err := lanes.Run(ctx); err != nil {
		return fmt.Errorf("webhook deliveries: %w", err)
	}
	return nil
}

// close closes the lanes. run has ended.
func (d *deliveries) close() error {
	defer d.sender.Close()
	if d.node != nil {
		return d.node.Close()
	}
	return d.lanes.Close()
}
