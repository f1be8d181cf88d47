package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/httpserver"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/merchant"
	"payledger/notifier"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/collect"
	"payledger/notifier/connector"
	"payledger/notifier/consumers"
	"payledger/notifier/relay"
	"payledger/notifier/signals"
	"payledger/notifier/worker"
)

// messaging is everything that runs over NATS: the embedded server or the
// connection to an external one, the relay, the workers and the enforcer, and
// the sender of the notifications.
type messaging struct {
	address string // where subscribers and connectors connect, if anywhere
	server  *embedded.Server
	conn    *bus.Conn
	noded   bool       // server and conn are a node's of a cluster
	failed  chan error // what ended the workers, the deliveries or the relay before stop

	checkpoints *bus.Checkpoints
	enforcer    *signals.Enforcer
	watchdog    atomic.Pointer[notifier.Watchdog] // nil: there is nothing to watch
	routes      *routes
	collector   *collect.Collector

	stopWork, stopServer func() error
}

// checkWait is how long the start waits for an external NATS server to say which
// log its EVENTS is a copy of. If it does not answer, the start goes on.
const checkWait = 5 * time.Second

// startBus starts everything on NATS. It fails only for causes that the operator
// must remove; an unavailable JetStream is waited for in the background.
func startBus(c *core, o Options, metrics prometheus.Registerer) (_ *messaging, err error) {
	b := &messaging{failed: make(chan error, 4)}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	if err := b.connect(c, o, metrics); err != nil {
		return nil, err
	}
	if n := len(c.acts.now().Consumers); n > 0 && b.server == nil {
		o.Log.Warn().Int("consumers", n).Msg("the consumers of this directory are those of the embedded NATS server: none of them can read from the one of --nats-url")
	}
	if b.routes, err = openRoutes(o, b.conn.NATS(), c.acts); err != nil {
		return nil, err
	}
	b.routes.watch(metrics)
	b.collector = collect.New(collect.Config{
		Ledger: c.ledger, IDs: c.ids, Now: time.Now, Routes: b.routes.set, Views: c.views, Signal: connector.NewSender(b.conn.NATS()).Send,
		ReturnURL: c.links.ReturnURL, Paused: c.acts.paused, Log: o.Log, Metrics: metrics, Tracer: c.tracer,
	})
	b.watchConnectors(metrics, c.views)
	b.routes.loaded = func() {
		b.collector.RoutesChanged()
		for route := range b.routes.set.Routes().Connectors {
			c.seed(route)
		}
	}
	b.routes.loaded()
	b.enforcer = signals.New(signals.Config{
		Conn: b.conn, Ledger: c.ledger, LogID: c.store.LogID(), IDs: c.ids, Routes: b.routes.set.Names, Log: o.Log, Metrics: metrics,
	})
	b.checkpoints = bus.NewCheckpoints(b.conn, c.store.LogID(), o.Log, metrics)
	if c.node != nil { // it watches its NATS server itself
		b.stopServer = b.run(c.consumers.Run, b.routes.run, func(ctx context.Context) error {
			return c.acts.follow(ctx, c.store, func() {
				b.routes.free()
				if err := b.server.ReloadConsumers(); err != nil {
					c.node.Report(err)
				}
			})
		})
		b.stopWork = b.run(func(ctx context.Context) error { return c.runLeaderDuties(ctx, b, o, metrics) })
		return b, nil
	}
	watched := func(context.Context) error { return nil }
	if b.server != nil {
		watched = b.server.Run
	}
	if b.stopWork, err = b.begin(c, o, metrics); err != nil {
		return nil, err
	}
	b.stopServer = b.run(watched, c.consumers.Run, b.routes.run)
	return b, nil
}

// begin begins what one process at a time does for the whole log. stop stops the workers,
// then the deliveries and the relay.
func (b *messaging) begin(c *core, o Options, metrics prometheus.Registerer) (stop func() error, err error) {
	copier := relay.New(relay.Config{Conn: b.conn, Store: c.store, LogID: c.store.LogID(), Log: o.Log, Metrics: metrics})
	c.consumers.Attach(consumers.Live{
		Address: b.address, External: b.server == nil, Users: b.server.ReloadConsumers, Durables: copier.Durables().KeepNow,
	})
	if o.NATS.URL != "" {
		ctx, cancel := context.WithTimeout(context.Background(), checkWait)
		defer cancel()
		var foreign *bus.ForeignStreamError
		if err := copier.Check(ctx); errors.As(err, &foreign) {
			return nil, cli.Errorf(cli.ExitDirectory, "--nats-url: %w", foreign)
		}
	}
	workers, err := worker.New(worker.Config{
		Ledger: c.ledger, IDs: c.ids, Now: time.Now, Table: b.routes.set.Table, Split: b.routes.acts.split,
		Again: b.routes.freed, Unrouted: c.views, Due: c.views, Settlements: c.views, Settling: &c.settling, Log: o.Log, Metrics: metrics,
	})
	if err != nil {
		return nil, err
	}
	var stall time.Duration // the default
	if b.noded {
		stall = time.Minute // elections come first
	}
	watchdog := notifier.NewWatchdog(notifier.WatchdogConfig{
		Stall:  stall,
		Server: b.server, Conn: b.conn, Relay: copier, Enforcer: b.enforcer,
		Log: o.Log, Metrics: metrics,
	})
	b.watchdog.Store(watchdog)
	stopRelay := b.run(copier.Run, b.checkpoints.Run)
	stopDeliveries := b.run(func(ctx context.Context) error {
		c.recordRestore(ctx) // what was sent before a restore is unknown
		return c.deliveries.send(ctx, metrics)
	})
	stopWorkers := b.run(workers.Run, b.enforcer.Run, watchdog.Run, b.collector.Run,
		func(ctx context.Context) error { return c.watchDifferences(ctx, metrics, b.routes.set.Names) },
		func(ctx context.Context) error { return b.conn.Hear(ctx, collect.Heard(), b.collector.Hear) },
		func(ctx context.Context) error { return b.conn.AnswerDetails(ctx, c.payment) })
	return func() error { return errors.Join(stopWorkers(), stopDeliveries(), stopRelay()) }, nil
}

// payment is a payment of the project as the log has it now.
func (c *core) payment(ctx context.Context, project string, id domain.ID) (domain.Payment, error) {
	if _, err := c.views.Fresh(ctx, eventstore.Filter(eventstore.PaymentStream(project, id))); err != nil {
		return domain.Payment{}, err
	}
	p, found, err := c.views.Payment(ctx, id)
	if err == nil && !found {
		err = c.views.Overlooked(ctx, project, id)
	}
	if err == nil && (!found || p.Project != project) {
		err = &domain.Refusal{Code: domain.PaymentNotFound}
	}
	return p, err
}

// run starts the parts together and answers how to stop them and wait, which may be done
// twice.
func (b *messaging) run(parts ...func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		g.Go(func() error { return part(ctx) })
	}
	done := make(chan error, 1)
	go func() {
		err := g.Wait()
		if err != nil {
			b.failed <- err
		}
		done <- err
	}()
	return sync.OnceValue(func() error {
		cancel()
		return <-done
	})
}

// connect starts the embedded server, unless an external one is named or a node has
// started its own, and connects to it.
func (b *messaging) connect(c *core, o Options, metrics prometheus.Registerer) (err error) {
	if o.NATS.URL != "" {
		if b.conn, err = bus.Connect(o.NATS, o.Log); err != nil {
			return cli.Errorf(cli.ExitUsage, "--nats-url: %w", err)
		}
		return nil
	}
	config := embedded.Config{
		Dir: c.dir.NATS(), Listen: o.NATSListen, TLS: o.NATSTLS, Log: o.Log, Metrics: metrics,
		Consumers: bus.Consumers{All: c.consumers.All, Progress: c.consumers.Progress},
	}
	if o.NATSListen != "" {
		// The address is tried here first, because the system's error is the clearest.
		l, err := httpserver.Listen(context.Background(), "nats-listen", o.NATSListen)
		if err != nil {
			return err
		}
		config.Listen = l.Addr().String()
		if err := l.Close(); err != nil {
			return err
		}
		if config.Credentials, err = clusternode.Credentials(c.dir); err != nil {
			return err
		}
	}
	if c.node != nil {
		b.noded = true
		err = c.node.Start(context.Background(), config)
		b.server, b.conn = c.node.Server, c.node.Conn
	} else {
		b.server, err = embedded.Start(config)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && c.node == nil:
		return cli.Errorf(cli.ExitAddress, "--nats-listen %s: %w", o.NATSListen, err)
	case err != nil && c.node == nil:
		return fmt.Errorf("starting the embedded NATS server: %w", err)
	case err != nil:
		return err
	}
	if addr := b.server.Addr(); addr != nil {
		b.address = addr.String()
	}
	if b.conn == nil {
		b.conn, err = b.server.Connect()
	}
	return err
}

// stop stops the work, the connection and the server; those of a node are the node's.
func (b *messaging) stop() error {
	var errs []error
	for _, stop := range []func() error{b.stopWork, b.stopServer} {
		if stop != nil {
			errs = append(errs, stop())
		}
	}
	if b.noded {
		return errors.Join(errs...)
	}
	if b.conn != nil {
		b.conn.Close()
	}
	if b.server != nil {
		b.server.Shutdown()
	}
	return errors.Join(errs...)
}

// sandbox plays the provider, nil where that is off.
func (b *messaging) sandbox(o Options) merchant.Sandbox {
	if !o.Sandbox {
		return nil
	}
	return sandbox{connector.NewSandbox(b.conn.NATS(), time.Now), b.routes.set}
}

// sandbox plays the provider of routes that have no other: a payment whose money a real
// provider collects must not become paid by a merchant's key.
type sandbox struct {
	plays  *connector.Sandbox
	routes *connector.Set
}

// SignalPayment implements merchant.Sandbox.
func (s sandbox) SignalPayment(ctx context.Context, p domain.Payment, o domain.Outcome, reference string) (domain.SignalReply, error) {
	if err := s.allowed(p); err != nil {
		return domain.SignalReply{}, err
	}
	return s.plays.SignalPayment(ctx, p, o, reference)
}

// SignalRefund implements merchant.Sandbox.
func (s sandbox) SignalRefund(ctx context.Context, p domain.Payment, refund domain.ID, o domain.Outcome, reference string) (domain.SignalReply, error) {
	if err := s.allowed(p); err != nil {
		return domain.SignalReply{}, err
	}
	return s.plays.SignalRefund(ctx, p, refund, o, reference)
}

func (s sandbox) allowed(p domain.Payment) error {
	if _, connected := s.routes.Connector(p.Route); connected {
		return &domain.Refusal{Code: domain.NotSimulated}
	}
	return nil
}
