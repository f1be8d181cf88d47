package service

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/exit"
	"payledger/cmd/payledger/routesfile"
	"payledger/httpapi/wire"
	"payledger/notifier/connector"
)

// routes are the rules and connectors in use, and the file they come from.
type routes struct {
	set    *connector.Set
	source routesfile.Source
	env    connector.Env
	again  <-chan os.Signal
	log    zerolog.Logger

	loading sync.Mutex // one reload at a time
}

// openRoutes reads the routes file and makes the connectors.
func openRoutes(o Options, nc *nats.Conn) (*routes, error) {
	r := &routes{source: o.Routes, again: o.Reload, log: o.Log, env: connector.Env{NATS: nc, Now: time.Now, Log: o.Log}}
	l, err := r.source.Load(r.env)
	if err != nil {
		return nil, exit.With(exit.Usage, "--routes: %w", err)
	}
	r.warn(l)
	r.set = connector.NewSet(l.Routes)
	return r, nil
}

// run reads the file again whenever it is asked to, until ctx ends.
func (r *routes) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.again:
			_, _ = r.Reload() // it is logged
		}
	}
}

// List are the routes in use, by name.
func (r *routes) List() []wire.Route { return routesfile.List(r.set.Routes()) }

// Reload reads the file again and puts its routes in the place of the present
// ones. Where anything is wrong with it nothing changes. The outcome is logged.
func (r *routes) Reload() ([]wire.Route, error) {
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
	r.warn(l)
	for _, route := range retired {
		r.log.Warn().Str("route", route).Msg("the routes file does not name this route any more: its connector stays until the server ends, for what was begun through it")
	}
	for _, sentence := range r.degraded() {
		r.log.Error().Msg(sentence)
	}
	r.log.Info().Str("file", r.source.File).Int("rules", len(l.Table)).Int("connectors", len(l.Connectors)).Msg("the routes file was read again")
	return r.List(), nil
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
		record(r.log.Warn(), r.source.File, p).Msg("the routes file deserves a look")
	}
}

func record(e *zerolog.Event, file string, p routesfile.Problem) *zerolog.Event {
	return e.Str("file", file).Int("line", p.Line).Int("column", p.Column).Str("pointer", p.Pointer).Str("problem", p.Detail)
}

// noRoutes says that no payment can be collected.
const noRoutes = "There is no route: every payment fails with no_route. Give --routes FILE, or --sandbox to try things out."

// degraded is noRoutes where it holds, for the body of /readyz.
func (r *routes) degraded() []string {
	if len(r.set.Table()) > 0 {
		return nil
	}
	return []string{noRoutes}
}

// watch keeps the metric of the routing rules, and complains where there are
// none.
func (r *routes) watch(m prometheus.Registerer) {
	m.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "payledger_routing_rules", Help: "Rules that give payments their route; with 0 every payment fails.",
	}, func() float64 { return float64(len(r.set.Table())) }))
	for _, sentence := range r.degraded() {
		r.log.Error().Msg(sentence)
	}
}
