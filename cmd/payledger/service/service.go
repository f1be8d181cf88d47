// Package service is the composition root, the only place that knows every
// package: it opens a data directory and runs everything on it, or the part of
// it that a command on a stopped directory needs.
package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/httpserver"
	"payledger/cmd/payledger/process"
	"payledger/cmd/payledger/routesfile"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/diskspace"
	"payledger/eventstore/replog"
	"payledger/httpapi"
	"payledger/httpapi/conns"
	"payledger/httpapi/peer"
	"payledger/notifier/bus"
	"payledger/notifier/webhook"
)

// Options are the settings of a running service.
type Options struct {
	Listen, PublicURL, AdminListen string
	NATSListen                     string
	NodeListen                     string       // see clusternode.Config
	NATS                           bus.External // without a URL: the embedded server
	NATSTLS                        *tls.Config  // of NATSListen; nil: none
	Sandbox                        bool
	WebhookAllowPrivate            bool
	WebhookSchedule                webhook.Schedule // nil: the default
	Routes                         routesfile.Source
	Reload                         <-chan os.Signal // each has the routes file read again; nil: none
	Limits                         domain.Limits    // of projects that have none of their own
	FailedAuthPerMinute            int              // per client address; 0: no limit
	MinFree                        uint64
	SyncDelay                      time.Duration
	ShutdownTimeout                time.Duration
	Connections, PerAddress        *int // nil: the defaults
	Log                            zerolog.Logger
	FlushLog                       func() error // writes records that Log has kept back; nil: there are none
	Stderr                         io.Writer    // for progress
}

// Addresses is where a running service can be reached.
type Addresses struct {
	BaseURL      string `json:"base_url"`
	AdminAddress string `json:"admin_address,omitempty"`
	NATSAddress  string `json:"nats_address,omitempty"`
	Data         string `json:"data"`
	VerifierKey  string `json:"verifier_key"` // of the log's checkpoints
}

// LoggedError is an error that the service has logged already.
type LoggedError struct{ error }

func (e *LoggedError) Unwrap() error { return e.error }

// Run serves a data directory until ctx ends or the log fails. Once
// everything answers it calls ready. What is started is stopped in the reverse
// order, so nothing is taken away from what still needs it: HTTP is drained,
// then come the workers, the deliveries, the relay, NATS, and last a
// checkpoint over all that came of it, the projections and the log. All of that has a bound, see process.Shutdown.
func Run(ctx context.Context, d datadir.Dir, o Options, ready func(Addresses) error) (err error) {
	s := &server{Options: o, dir: d, ready: ready, end: process.NewShutdown(o.ShutdownTimeout, o.Log)}
	defer context.AfterFunc(ctx, s.end.Begin)()
	defer func() {
		err = errors.Join(err, s.end.Stop())
		if s.serving && err != nil {
			o.Log.Error().Err(err).Msg("payledger ended")
			err = &LoggedError{err}
		}
	}()
	if err := s.start(); err != nil {
		return err
	}
	return s.serve(ctx)
}

// serve serves the directory until all ends.
func (s *server) serve(ctx context.Context) error {
	d, o, metrics, started := s.dir, s.Options, s.metrics, s.end.Started
	cluster, err := clusterOf(d, o)
	if err != nil {
		return err
	}
	core, err := openCore(ctx, d, CoreOptions{
		Log: o.Log, MinFree: o.MinFree, SyncDelay: o.SyncDelay, Progress: o.progress("Bringing the projections up to the log"),
		AllowPrivate: o.WebhookAllowPrivate, Schedule: o.WebhookSchedule, Webhooks: s.room.Webhooks, Metrics: metrics, Committed: s.committed, Tracer: s.tracer,
		Cluster: cluster, NodeListen: o.NodeListen,
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		o.Log.Warn().Err(err).Msg("payledger is stopped before it is ready")
		return nil
	}
	if err != nil {
		return err
	}
	started("the data directory", core.close)
	s.end.Saving(core.store.Saving)
	core.watchLog(metrics)
	watchNode(metrics, core.node)
	watchMoney(metrics, core.views)
	watchDisk(metrics, d, cmp.Or(o.MinFree, diskspace.DefaultFloor))
	if free, floor, full := core.room(o.MinFree); full != nil {
		o.Log.Error().Err(full).Uint64("free_bytes", free).Uint64("min_free_bytes", floor).Msg("nothing new is recorded until there is room; reading goes on")
	}
	if err := s.listen(ctx, core.signed.Key.VerifierKey()); err != nil {
		return err
	}

	messaging, err := startBus(core, o, metrics)
	if err != nil {
		return err
	}
	started("the workers, webhooks and NATS", messaging.stop)
	started("the checkpoints", core.signed.Follow(messaging.checkpoints.Publish))
	s.at.NATSAddress = messaging.address

	public, err := core.publicHandler(s.at.BaseURL, o, messaging, metrics)
	if err != nil {
		return err
	}
	adminHandler, err := core.adminHandler(messaging.administration(o, core, core.statusOf(o, s.at.BaseURL, messaging)))
	if err != nil {
		return err
	}
	public, adminHandler = core.forwarded(peer.Public, public, document), core.forwarded("admin", adminHandler, ofNode)
	if core.node != nil {
		core.node.ServePeers()
	}
	socket, err := d.ListenSocket()
	if err != nil {
		return fmt.Errorf("opening the admin socket: %w", err)
	}
	admin, err := s.bounded(socket, adminHandler, conns.Config{Name: "admin", Max: httpserver.MaxAdminConnections})
	if err != nil {
		return err
	}
	s.servers = append(s.servers, admin)
	// With those that answer adds.
	started("the requests under way", func() error { return httpserver.ShutdownAll(s.ShutdownTimeout, s.servers) })
	if err := s.answer(ctx, public); err != nil {
		return err
	}
	// First of all at the end: a drain would wait for feeds that are followed.
	started("the feeds", func() error { core.stop(); return nil })
	if !core.awaitPart(ctx) {
		o.Log.Warn().Msg("payledger is stopped before it is ready")
		return nil
	}
	s.up()
	if err := s.ready(s.at); err != nil {
		return err
	}
	dead, err := core.run(ctx, messaging)
	if dead { // nothing can be answered any more that waits for the log
		s.ShutdownTimeout = min(s.ShutdownTimeout, time.Second)
	}
	if err != nil {
		return err
	}
	o.Log.Info().Msg("shutting down")
	core.withdraw()
	return nil
}

// run waits until ctx ends or a part fails, and answers why that is; dead: the log is not
// written any more. A failure of the log is the cause of all others, and a log that lost its
// file is saved first.
func (c *core) run(ctx context.Context, b *messaging) (dead bool, err error) {
	var twice <-chan struct{} // nil: the directory is alone
	if c.node != nil {
		twice = c.node.Store.Twice()
	}
	select {
	case <-ctx.Done():
		return false, nil
	case <-twice:
		return true, cli.Errorf(cli.ExitDirectory, "stopping node %s: %w", c.node.Node, replog.ErrTwice)
	case <-c.store.Fatal():
	case err = <-c.viewsDone:
		c.viewsDone <- err
		err = fmt.Errorf("the projections stopped: %w", err)
	case err = <-c.signed.Failed():
		dead = true
	case err = <-b.failed:
		err = fmt.Errorf("the workers stopped: %w", err)
	}
	if c.store.Err() == nil {
		return dead, err
	}
	select {
	case <-c.store.Fatal():
	case <-ctx.Done():
	}
	if replaced := (*bolt.ReplacedError)(nil); errors.As(c.store.Err(), &replaced) {
		return true, cli.Errorf(cli.ExitDirectory, "stopping: %w", replaced)
	}
	return true, fmt.Errorf("stopping, start again to go on from what is on disk: %w", c.store.Err())
}

// progress shows how far long work before the start has come: on a terminal as
// commands do, else in the log.
func (o Options) progress(what string) func(done, total eventstore.Position) {
	if cli.IsTerminal(o.Stderr) {
		return cli.Progress(o.Stderr, what)
	}
	return cli.EachInterval(func(done, total eventstore.Position) {
		o.Log.Info().Uint64("done", uint64(done)).Uint64("events", uint64(total)).Msg(what)
	})
}

func ignoreNetClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// publicHandler serves the merchants' API and the payment page.
func (c *core) publicHandler(base string, o Options, b *messaging, m prometheus.Registerer) (http.Handler, error) {
	config := httpapi.Config{
		Config: c.merchantConfig(), Account: c.cookies, Log: c.log, Metrics: m, RetrySchedule: c.deliveries.config.Schedule,
		Ready: c.answers, Degraded: func() []string { return slices.Concat(c.cramped(o.MinFree), b.degraded()) },
	}
	config.Connectors, config.Attempts = notifications{b.routes.set, b.collector.Notify}, attempts{b.routes, b.collector}
	config.Routing = func() domain.Routing {
		table, paused := b.routes.acts.split(b.routes.set.Table())
		return domain.Routing{Table: table, Paused: paused}
	}
	config.PublicURL, config.Sandbox, config.Checkpoint = base, b.sandbox(o), c.signed.Promptly
	config.Limits, config.FailedAuthPerMinute = o.Limits, o.FailedAuthPerMinute
	return httpapi.New(config)
}
