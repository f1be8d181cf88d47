package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/routesfile"
	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/httpapi/wire"
	"payledger/notifier/connector"
	"payledger/notifier/health"
)

// routes are the rules and connectors in use, and the file they come from.
type routes struct {
	set    *connector.Set
	freed  chan struct{} // holds a token when payments without a route may get one
	source routesfile.Source
	env    connector.Env
	again  <-chan os.Signal
	log    zerolog.Logger
	loaded func() // hears of each reload, before it is answered
	acts   *actLog
	deaf   bool // no program reaches the NATS server of this process

	loading    sync.Mutex              // one reload at a time
	act        installation.LoadRoutes // what was loaded last, and by whom; guarded by loading
	why        eventstore.Cause
	unrecorded chan struct{} // holds a token when recordUse is to record that
}

// openRoutes reads the routes file and makes the connectors.
func openRoutes(o Options, nc *nats.Conn, acts *actLog) (*routes, error) {
	r := &routes{
		source: o.Routes, again: o.Reload, log: o.Log, env: connector.Env{NATS: nc, Now: time.Now},
		freed: make(chan struct{}, 1), unrecorded: make(chan struct{}, 1), acts: acts, deaf: o.NATSListen == "" && o.NATSURL == "",
	}
	l, err := r.source.Load(r.env)
	if err != nil {
		return nil, cli.Errorf(cli.ExitUsage, "--routes: %w", err)
	}
	r.warn(l)
	r.set = connector.NewSet(l.Routes)
	r.act = actOf(l, installation.RoutesOnStart)
	return r, nil
}

// actOf is the act of having loaded the file.
func actOf(l routesfile.Loaded, on installation.RoutesReason) installation.LoadRoutes {
	act := installation.LoadRoutes{SHA256: l.SHA256, On: on}
	if l.SHA256 != (domain.Digest{}) {
		act.Rules, act.Connectors = len(l.Table), len(l.Connectors)
	}
	return act
}

// recordUse records the routes of a server that decides by them, from its start on, or while its
// node is the leader, also those that a reload could not record.
func (r *routes) recordUse(ctx context.Context) error {
	for {
		err := health.Persist(ctx, func() error {
			r.loading.Lock()
			defer r.loading.Unlock()
			return r.record(ctx)
		})
		if err != nil && ctx.Err() == nil {
			r.log.Error().Err(err).Msg("the routes in use could not be recorded")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.unrecorded:
		}
	}
}

// run reads the file again whenever it is asked to, until ctx ends.
func (r *routes) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.again:
			_, _ = r.reload(ctx, eventstore.Cause{}, installation.RoutesOnSignal) // it is logged
		}
	}
}

// List are the routes in use and those that are paused, by name.
func (r *routes) List() []wire.Route {
	all := routesfile.List(r.set.Routes())
	for _, p := range r.acts.now().Paused {
		i, known := slices.BinarySearchFunc(all, p.Route, func(row wire.Route, name string) int { return strings.Compare(row.Route, name) })
		if !known {
			all = slices.Insert(all, i, wire.Route{Route: p.Route, Rules: []domain.Rule{}})
		}
		all[i].Paused = &wire.RoutePause{Since: p.Since, Reason: p.Reason}
	}
	return all
}

// Pause pauses a route, also over restarts.
func (r *routes) Pause(ctx context.Context, why eventstore.Cause, route, reason string) error {
	did, err := r.acts.recordAt(ctx, why, func(at domain.Instant) installation.Command {
		return installation.PauseRoute{Route: route, Reason: reason, Since: at}
	})
	if did {
		r.log.Warn().Str("route", route).Str("reason", reason).Msg("the route is paused: it gets no payments, and no attempt begins on it; what is open there continues")
	}
	return err
}

// Resume ends the pause of a route.
func (r *routes) Resume(ctx context.Context, why eventstore.Cause, route string) error {
	did, err := r.acts.record(ctx, why, installation.ResumeRoute{Route: route})
	if did {
		r.log.Info().Str("route", route).Msg("the route is resumed")
		r.free()
	}
	return err
}

// free has the payments that wait without a route decided again.
func (r *routes) free() { signal(r.freed) }

// signal puts a token into a channel that has room for one, unless it holds one.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// Reload reads the file again and puts its routes in the place of the present
// ones. Where anything is wrong with it nothing changes. The outcome is logged,
// and another file than before is recorded, at once or as soon as that can be: by a follower once it leads.
func (r *routes) Reload(ctx context.Context, why eventstore.Cause) ([]wire.Route, error) {
	return r.reload(ctx, why, installation.RoutesOnCommand)
}

func (r *routes) reload(ctx context.Context, why eventstore.Cause, on installation.RoutesReason) ([]wire.Route, error) {
	r.loading.Lock()
	defer r.loading.Unlock()
	if r.source.File == "" {
		return nil, errors.New("the server was started without --routes: there is no file to read")
	}
	l, err := r.source.Load(r.env)
	var retired []string
	if err == nil {
		retired, err = r.set.Replace(l.Routes)
	}
	if err != nil {
		r.refused(err)
		return nil, err
	}
	r.free()
	r.loaded()
	r.warn(l)
	for _, route := range retired {
		r.log.Warn().Str("route", route).Msg("the routes file does not name this route any more: its connector stays until the server ends, for what was begun through it")
	}
	for _, sentence := range r.degraded() {
		r.log.Error().Msg(sentence)
	}
	r.log.Info().Str("file", r.source.File).Int("rules", len(l.Table)).Int("connectors", len(l.Connectors)).Msg("the routes file was read again")
	r.act, r.why = actOf(l, on), why
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	if r.record(ctx) != nil { // on a follower, too
		signal(r.unrecorded)
	}
	return r.List(), nil
}

// record records which routes are in use, and from when on reports are to have their outcomes.
func (r *routes) record(ctx context.Context) error {
	_, err := r.acts.record(ctx, r.why, r.act)
	now := r.set.Routes().Connectors
	for _, route := range slices.Sorted(maps.Keys(now)) {
		if since := now[route].SettledSince; err == nil && !now[route].Retired && since != r.acts.now().SettledSince[route] {
			_, err = r.acts.record(ctx, r.why, installation.SettleRouteSince{Route: route, Since: since})
		}
	}
	return err
}

// refused logs what is wrong with the file.
func (r *routes) refused(err error) {
	var file *routesfile.Error
	if !errors.As(err, &file) {
		r.log.Error().Err(err).Msg("the routes file was not taken: the routes stay as they are")
		return
	}
	for _, p := range file.Problems {
		record(r.log.Error(), file.File, p).Msg("the routes file was not taken: the routes stay as they are")
	}
}

func (r *routes) warn(l routesfile.Loaded) {
	for _, p := range l.Warnings {
		record(r.log.Warn(), r.source.File, p).Msg("the routes file has a warning")
	}
	for _, route := range routesfile.List(l.Routes) {
		if r.deaf && route.Type == "nats" && len(route.Rules) > 0 {
			r.log.Warn().Str("route", route.Route).Msg("no program can say what becomes of the payments of this route, because none reaches this server's NATS: give --nats-listen or --nats-url, on a node of a cluster on one of its nodes")
		}
	}
}

func record(e *zerolog.Event, file string, p routesfile.Problem) *zerolog.Event {
	return e.Str("file", file).Int("line", p.Line).Int("column", p.Column).Str("pointer", p.Pointer).Str("problem", p.Detail)
}

// noRoutes says that no payment can be collected.
const noRoutes = "There is no route: every new payment is refused with no_route. Give --routes FILE, or --sandbox to try things out."

// degraded says why payments are not collected, for the body of /readyz, which is public.
func (r *routes) degraded() []string {
	var all []string
	if len(r.set.Table()) == 0 {
		all = append(all, noRoutes)
	}
	for _, p := range r.acts.now().Paused {
		all = append(all, fmt.Sprintf("The operator has paused the route %s since %s: it gets no payments, and its customers cannot begin to pay.", p.Route, p.Since))
	}
	return all
}

// rules are those of routes in use, and those of paused ones.
func (r *routes) rules() (inUse, paused domain.RoutingTable) {
	return r.acts.now().Split(r.set.Table())
}

// watch registers the metric of the routing rules, and warns when there are none.
func (r *routes) watch(m prometheus.Registerer) {
	health.GaugeFunc(m, "payledger_routing_rules", "Rules that give payments their route; with 0 every new payment is refused.",
		func() float64 { return float64(len(r.set.Table())) })
	m.MustRegister(newLabelled("payledger_route_paused",
		"1 while the operator has paused the route: it gets no payments, and no attempt begins on it.", "route", func() map[string]float64 {
			paused := make(map[string]float64)
			for _, route := range r.List() {
				paused[route.Route] = 0
				if route.Paused != nil {
					paused[route.Route] = 1
				}
			}
			return paused
		}))
	for _, sentence := range r.degraded() {
		r.log.Error().Msg(sentence)
	}
}
