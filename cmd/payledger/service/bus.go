package service

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/httpapi/merchant"
	"payledger/notifier"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/collect"
	"payledger/notifier/connector"
	"payledger/notifier/signals"
	"payledger/notifier/worker"
)

// connect starts the embedded server, unless an external one is named, and connects to it. That of a
// node is started and stopped by the node.
func (a *app) connect(ctx context.Context) (part process.Part, err error) {
	if a.NATS.URL != "" {
		if a.conn, err = bus.Connect(a.NATS, a.Log); err != nil {
			return part, cli.Errorf(cli.ExitUsage, "--nats-url: %w", err)
		}
		if n := len(a.acts.now().Consumers); n > 0 {
			a.Log.Warn().Int("consumers", n).Msg("the consumers of this directory are those of the embedded NATS server: none of them can read from the one of --nats-url")
		}
		part.Stop = func() error { a.conn.Close(); return nil }
		return part, nil
	}
	config := embedded.Config{
		Dir: a.dir.NATS(), Listen: a.NATSListen, TLS: a.NATSTLS, Consumers: a.consumers, Log: a.Log, Metrics: a.metrics,
	}
	if a.NATSListen != "" {
		// The address is tried here first, because the system's error is the clearest.
		l, err := process.Listen(ctx, "nats-listen", a.NATSListen)
		if err != nil {
			return part, err
		}
		config.Listen = l.Addr().String()
		if err := l.Close(); err != nil {
			return part, err
		}
		if config.Credentials, err = clusternode.Credentials(a.dir); err != nil {
			return part, err
		}
	}
	if a.node != nil {
		err = a.node.Start(ctx, config)
		a.nats, a.conn = a.node.Server, a.node.Conn
	} else if a.nats, err = embedded.Start(config); err == nil {
		part.Run, part.Stop = a.nats.Run, func() error {
			if a.conn != nil {
				a.conn.Close()
			}
			a.nats.Shutdown()
			return nil
		}
		a.conn, err = a.nats.Connect()
	} else if errors.Is(err, syscall.EADDRINUSE) {
		err = cli.Errorf(cli.ExitAddress, "--nats-listen %s: %w", a.NATSListen, err)
	} else {
		err = fmt.Errorf("starting the embedded NATS server: %w", err)
	}
	if err != nil {
		return part, err
	}
	if addr := a.nats.Addr(); addr != nil {
		a.at.NATSAddress = addr.String()
	}
	return part, nil
}

// openRoutes makes the connectors of the routes, and what works with them.
func (a *app) openRoutes(context.Context) (part process.Part, err error) {
	if a.routes, err = openRoutes(a.Options, a.conn.NATS(), a.acts); err != nil {
		return part, err
	}
	a.routes.watch(a.metrics)
	a.collector = collect.New(collect.Config{
		Ledger: a.ledger, IDs: a.ids, Now: time.Now, Routes: a.routes.set, Views: a.views, Signal: connector.NewSender(a.conn.NATS()).Send,
		ReturnURL: a.links.ReturnURL, Paused: a.acts.paused, Log: a.Log, Metrics: a.duties, Tracer: a.tracer,
	})
	a.metrics.MustRegister(newLabelled("payledger_attempts_success_ratio",
		"Paid ones of the attempts that ended in the last 24 hours; NaN when none did.", "route", a.successRates))
	a.routes.loaded = func() {
		a.collector.RoutesChanged()
		for route := range a.routes.set.Routes().Connectors {
			a.seed(route)
		}
	}
	a.routes.loaded()
	a.enforcer = signals.New(signals.Config{
		Conn: a.conn, Ledger: a.ledger, LogID: a.store.LogID(), IDs: a.ids, Routes: a.routes.set.Names, Log: a.Log, Metrics: a.duties,
	})
	a.published = bus.NewCheckpoints(a.conn, a.store.LogID(), a.Log, a.duties)
	return process.Part{Run: a.routes.run}, nil
}

// checkWait is how long the start waits for an external NATS server to say which
// log its EVENTS is a copy of. If it does not answer, the start goes on.
const checkWait = 5 * time.Second

// startDuties starts what one process at a time does for the whole log: alone, or while it is the
// leader of a cluster. It fails only for causes that the operator must remove; an unavailable
// JetStream is waited for.
func (a *app) startDuties(ctx context.Context, parts *process.Parts, metrics prometheus.Registerer) error {
	metrics.MustRegister(a.duties)
	copier := notifier.NewRelay(notifier.RelayConfig{Conn: a.conn, Store: a.store, LogID: a.store.LogID(), Log: a.Log, Metrics: metrics})
	a.consumers.Attach(copier.Durables())
	if a.NATS.URL != "" {
		ctx, cancel := context.WithTimeout(ctx, checkWait)
		defer cancel()
		if foreign, ok := errors.AsType[*bus.ForeignStreamError](copier.Check(ctx)); ok {
			return cli.Errorf(cli.ExitDirectory, "--nats-url: %w", foreign)
		}
	}
	operators := a.merchantConfig()
	operators.PublicURL = adminURL
	erasing, err := merchant.New(operators)
	if err != nil {
		return err
	}
	workers := worker.New(worker.Config{
		Ledger: a.ledger, IDs: a.ids, Now: time.Now, Table: a.routes.rules, Again: a.routes.freed,
		Unrouted: a.views, Due: a.views, Settlements: a.views, Settling: &a.settling, Details: erasing, Log: a.Log, Metrics: metrics,
	})
	var stall time.Duration // the default
	if a.node != nil {
		stall = time.Minute // elections come first
	}
	watchdog := notifier.NewWatchdog(notifier.WatchdogConfig{
		Stall: stall, Server: a.nats, Conn: a.conn, Relay: copier, Enforcer: a.enforcer, Log: a.Log, Metrics: metrics,
	})
	parts.Go("relay", copier.Run)
	parts.Go("publication of checkpoints", a.published.Run)
	parts.Go("sending of webhooks", func(ctx context.Context) error { return a.sendWebhooks(ctx, metrics) })
	parts.Go("routes in use", a.routes.recordUse)
	parts.Go("workers", workers.Run)
	parts.Go("outcomes", a.enforcer.Run)
	parts.Go("collecting", a.collector.Run)
	parts.Go("details", func(ctx context.Context) error { return a.conn.AnswerDetails(ctx, a.payment) })
	parts.Go("differences", func(ctx context.Context) error { return a.watchDifferences(ctx, metrics) })
	a.watchdog.Store(watchdog)
	parts.Add("watchdog", process.Part{Run: watchdog.Run, Stop: func() error { a.watchdog.Store(nil); return nil }})
	return nil
}

// signCheckpoints signs and publishes checkpoints as events arrive.
func (a *app) signCheckpoints(context.Context) (process.Part, error) {
	return process.Part{Run: func(ctx context.Context) error { a.signed.Follow(ctx, a.published.Publish); return nil }}, nil
}

// payment is a payment of the project as the log has it now.
func (a *app) payment(ctx context.Context, project string, id domain.ID) (domain.Payment, error) {
	p, found, err := a.views.Payment(ctx, id)
	if err == nil && !found {
		err = a.views.Overlooked(ctx, project, id)
	}
	if err == nil && (!found || p.Project != project) {
		err = &domain.Refusal{Code: domain.PaymentNotFound}
	}
	return p, err
}

// sandbox plays the provider, nil where that is off.
func (a *app) sandbox() merchant.Sandbox {
	if !a.Sandbox {
		return nil
	}
	s := connector.NewSandbox(a.conn.NATS(), time.Now)
	s.Routes = a.routes.set
	return s
}
