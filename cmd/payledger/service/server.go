package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/httpapi"
	httpadmin "payledger/httpapi/admin"
	"payledger/httpapi/conns"
	"payledger/httpapi/merchant"
	"payledger/httpapi/peer"
)

// listen takes the public address.
func (a *app) listen(ctx context.Context) (part process.Part, err error) {
	if a.listener, err = process.Listen(ctx, "listen", a.Listen); err != nil {
		return part, err
	}
	a.startedAt = domain.InstantOf(time.Now())
	a.at = Addresses{
		BaseURL: cmp.Or(a.PublicURL, "http://"+process.Reachable(a.listener.Addr())), Data: string(a.dir), VerifierKey: a.signed.Key.VerifierKey(),
	}
	part.Stop = func() error {
		if err := a.listener.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
	return part, nil
}

// answer serves the admin socket, and the operator's and the public listener.
func (a *app) answer(ctx context.Context) (part process.Part, err error) {
	var stopStreams context.CancelFunc
	a.stopping, stopStreams = context.WithCancel(context.WithoutCancel(ctx))
	var servers []*process.Server
	part.Stop = func() (err error) {
		stopStreams() // first: the rest would wait for feeds that are followed
		ctx, cancel := context.WithTimeout(context.Background(), a.ShutdownTimeout)
		defer cancel()
		for _, server := range slices.Backward(servers) {
			err = errors.Join(err, server.Shutdown(ctx))
		}
		return err
	}
	serve := func(l net.Listener, h http.Handler, c conns.Config) error {
		c.Log, c.Metrics = a.Log, a.metrics
		server, err := process.Serve(l, h, c)
		if err != nil {
			return errors.Join(err, l.Close())
		}
		servers = append(servers, server)
		return nil
	}
	public, err := a.publicHandler()
	if err != nil {
		return part, err
	}
	admin, err := a.adminHandler()
	if err != nil {
		return part, err
	}
	public, admin = a.forwarded(peer.Public, public, document), a.forwarded("admin", admin, ofNode)
	if a.node != nil {
		a.node.ServePeers()
	}
	socket, err := a.dir.ListenSocket()
	if err != nil {
		return part, fmt.Errorf("opening the admin socket: %w", err)
	}
	if err := serve(socket, admin, conns.Config{Name: "admin", Max: process.MaxAdminConnections}); err != nil {
		return part, err
	}
	if a.AdminListen != "" {
		l, err := process.Listen(ctx, "admin-listen", process.OnLoopback(a.AdminListen))
		if err != nil {
			return part, err
		}
		a.at.AdminAddress = l.Addr().String()
		if err := serve(l, a.operatorHandler(), conns.Config{Name: "operator", Max: process.MaxAdminConnections}); err != nil {
			return part, err
		}
	}
	return part, serve(a.listener, public, conns.Config{Name: "public", Max: a.room.All, PerAddress: a.room.PerAddress})
}

// up logs where the service can be reached.
func (a *app) up() {
	up := a.Log.Info().Str("base_url", a.at.BaseURL).Str("listen", a.listener.Addr().String()).Str("data", string(a.dir)).
		Int("max_connections", a.room.All)
	if a.at.AdminAddress != "" {
		up.Str("admin_listen", a.at.AdminAddress)
	}
	if a.at.NATSAddress != "" {
		up.Str("nats_listen", a.at.NATSAddress).Bool("nats_tls", a.NATSTLS != nil)
	}
	up.Msg("ready")
}

// publicHandler serves the merchants' API and the payment page.
func (a *app) publicHandler() (http.Handler, error) {
	config := httpapi.Config{
		Config: a.merchantConfig(), Account: a.cookies, Log: a.Log, Metrics: a.metrics, RetrySchedule: a.WebhookSchedule,
		Ready: a.answers, Degraded: func() []string {
			all := a.degraded()
			if _, _, full := a.space(); full != nil { // reading goes on, so the server stays ready
				all = slices.Insert(all, 0, "Nothing new is recorded: "+full.Error()+".")
			}
			return all
		},
		Connectors: notifications{a.routes.set, a.collector.Notify}, Attempts: attempts{a.collector, a.routes},
	}
	config.Routing = func() domain.Routing {
		table, paused := a.routes.rules()
		return domain.Routing{Table: table, Paused: paused}
	}
	config.Limits, config.FailedAuthPerMinute = a.Limits, a.FailedAuthPerMinute
	config.PublicURL, config.Sandbox, config.Checkpoint = a.at.BaseURL, a.sandbox(), a.signed.Promptly
	return httpapi.New(config)
}

// merchantConfig is what both HTTP handlers need.
func (a *app) merchantConfig() merchant.Config {
	return merchant.Config{
		KeyTimes: a.keyTimes, Ledger: a.ledger, Views: a.views, IDs: a.ids, Links: a.links,
		Checkpoint: a.signed.Checkpoint, Webhooks: a.lanes, Stopping: a.stopping, Tracer: a.tracer,
	}
}

// adminURL stands for where the administration is reached.
const adminURL = "http://payledger"

// adminHandler serves the admin interface.
func (a *app) adminHandler() (http.Handler, error) {
	c := httpadmin.Config{
		Config: a.merchantConfig(), Log: a.Log, Backup: a.store.Backup, Consumers: a.consumers, Record: a.acts.record, Settling: &a.settling,
	}
	c.PublicURL = adminURL
	if a.metrics != nil { // what only a running server has
		c.Status, c.Parked, c.Routes, c.Ask, c.Looks, c.Running = a.status, a.enforcer.Parked(), a.routes, a.ask, a.collector.Looks, &a.Limits
		c.Sandbox = a.sandbox()
	}
	if a.node != nil {
		c.Nodes, c.Promote = a.nodes, a.promote
	}
	return httpadmin.New(c)
}
