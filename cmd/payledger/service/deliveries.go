package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/delivery"
	"payledger/notifier/health"
	"payledger/notifier/webhook"
	"payledger/projections"
)

// deliveries are the notifications of a data directory and what sends them.
// Commands on a stopped directory have them too; only a server sends.
type deliveries struct {
	*delivery.Lanes

	config delivery.Config
	sender *webhook.Sender
}

func openDeliveries(d datadir.Dir, o CoreOptions, ledger eventstore.Ledger, views *projections.Engine, ids *domain.IDs, shared bool) (*deliveries, error) {
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
	version, _ := process.BuiltFrom()
	all := &deliveries{sender: webhook.NewSender(webhook.Config{AllowPrivate: o.AllowPrivate, UserAgent: "payledger/" + version, Requests: o.Webhooks})}
	all.config = delivery.Config{
		Ledger: ledger, Rows: views.Deliveries(), Endpoints: views, Secrets: secrets, Sender: all.sender, Schedule: o.Schedule,
		IDs: ids, Now: time.Now, Log: o.Log, Tracer: o.Tracer, Limits: delivery.Limits{Requests: o.Webhooks}, Shared: shared,
	}
	all.Lanes = delivery.New(all.config)
	return all, nil
}

// send sends until ctx ends. In a cluster another node may have begun to: then this one
// stops, and begins again if it still is the leader.
func (d *deliveries) send(ctx context.Context, metrics prometheus.Registerer) error {
	for {
		err := d.Run(ctx, metrics)
		switch {
		case err == nil:
			return nil
		case !d.config.Shared || !errors.Is(err, delivery.ErrLost):
			return fmt.Errorf("webhook deliveries: %w", err)
		}
		d.config.Log.Warn().Err(err).Msg("this node stops sending webhooks")
		if !health.Pause(ctx, time.Second) {
			return nil
		}
	}
}

// close frees connections. What sends has ended.
func (d *deliveries) close() error { //nolint:unparam // as all parts
	d.sender.Close()
	return nil
}
