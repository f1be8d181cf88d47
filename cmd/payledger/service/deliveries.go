package service

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/cmd/payledger/process"
	"payledger/notifier/delivery"
	"payledger/notifier/health"
	"payledger/notifier/webhook"
)

// openWebhooks makes what notifies merchants. Commands on stopped directories have it too; only a
// server sends.
func (a *app) openWebhooks(context.Context) (part process.Part, err error) {
	if a.WebhookSchedule == nil {
		a.WebhookSchedule = webhook.DefaultSchedule()
	}
	version, _ := process.BuiltFrom()
	sender := webhook.NewSender(webhook.Config{AllowPrivate: a.WebhookAllowPrivate, UserAgent: "payledger/" + version, Requests: a.room.Webhooks})
	a.lanes = delivery.New(delivery.Config{
		Ledger: a.ledger, Rows: a.views.Deliveries(), Views: a.views, Secrets: a.secrets, Sender: sender, Schedule: a.WebhookSchedule,
		IDs: a.ids, Now: time.Now, Log: a.Log, Tracer: a.tracer, Limits: delivery.Limits{Requests: a.room.Webhooks}, Shared: a.node != nil,
	})
	part.Stop = func() error { sender.Close(); return nil }
	return part, nil
}

// sendWebhooks sends until ctx ends. In a cluster another node may have begun to: then this one
// stops, and begins again if it still is the leader.
func (a *app) sendWebhooks(ctx context.Context, m prometheus.Registerer) error {
	a.recordRestore(ctx) // what was sent before a restore is unknown
	for {
		err := a.lanes.Run(ctx, m)
		if a.node == nil || !errors.Is(err, delivery.ErrLost) {
			return err
		}
		a.Log.Warn().Err(err).Msg("this node stops sending webhooks")
		if !health.Pause(ctx, time.Second) {
			return nil
		}
	}
}
