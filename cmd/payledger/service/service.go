// Package service is the composition root, the only place that knows every
// package: it opens a data directory and runs everything on it, or the part of
// it that a command on a stopped directory needs.
package service

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/checkpoints"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/cmd/payledger/routesfile"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/tracing"
	"payledger/httpapi/account"
	"payledger/httpapi/checkout"
	"payledger/notifier"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/collect"
	"payledger/notifier/delivery"
	"payledger/notifier/signals"
	"payledger/notifier/webhook"
	"payledger/projections"
)

// Flags are the flags that serve and demo share.
type Flags struct {
	Listen      string `help:"Address of the merchants' API and the payment page; port 0 picks a free one. Default: 127.0.0.1:8080." default:"127.0.0.1:8080" placeholder:"ADDR"`
	PublicURL   string `help:"URL under which customers and merchants reach --listen; payment links begin with it. Default: http:// and the address, or localhost in place of all interfaces." placeholder:"URL" name:"public-url"`
	AdminListen string `help:"Address of /metrics and /debug/pprof; a bare :PORT is on loopback. Default: none." placeholder:"ADDR"`

	NodeListen clusternode.ListenAddress `help:"Address that a node of a cluster takes for the others, where it is not the one at which they reach it, as behind NAT or in a container: HOST:PORT or :PORT. Default: the one it has in the cluster." placeholder:"ADDR"`

	cli.NATSURLFlags
	cli.NATSListenFlags

	Sandbox bool   `help:"Simulate the provider: a pay button on the page, sandbox endpoints and commands, and a route for every payment unless --routes names others. Not for real money."`
	Routes  string `help:"JSON file with the rules that choose a payment's route, and the routes' connectors; SIGHUP reads it again. See \"payledger routes --help\"." placeholder:"FILE"`

	WebhookAllowPrivate  bool   `help:"Webhook endpoints may be http, any port and any address, this machine and its network included. For development."`
	WebhookRetrySchedule string `help:"Waits before each attempt of a notification, separated by commas; each is up to a quarter longer. Default: 0s,5s,30s,2m,10m,30m,2h,5h,10h,14h,20h,24h." placeholder:"LIST"`

	RateWrites       *int          `help:"Writes a second and project, with bursts of twice as many; 0: no limit. Default: 25, in the demo 0. Projects may have their own rates and times of sessions: \"payledger project change --help\"." placeholder:"N"`
	RateReads        *int          `help:"Reads a second and project, and as many pages of its account, with bursts of twice as many; 0: no limit. Default: 100, in the demo 0." placeholder:"N"`
	RateAuthFailures *int          `help:"Failed authentications a minute and address; 0: no limit. Default: 10, in the demo 0." placeholder:"N"`
	RateCustomers    *int          `help:"A minute and address: requests to payment pages, a tenth of them forms that are sent, and as many requests to the account, whose forms count like its pages; 0: no limit. Default: 600, in the demo 0." placeholder:"N"`
	SessionIdle      time.Duration `help:"How long a session of the account lives without use, 5m to 720h. Default: 30m." default:"30m" placeholder:"TIME"`
	SessionMax       time.Duration `help:"How long a session of the account lives at all, 5m to 720h. Default: 12h." default:"12h" placeholder:"TIME"`

	MaxConnections           *int `help:"Connections to --listen at once. When there are more, one that waits for its client is closed. Default: half of what the limit of open files (ulimit -n) leaves, at most 4096." placeholder:"N"`
	MaxConnectionsPerAddress *int `help:"How many of these one address may have; 0: no limit. Addresses of this machine and of private networks, where proxies are, have no limit. Default: a quarter of all, at most 256." placeholder:"N"`

	MinFree         uint64        `help:"Free bytes on the disk below which writes are refused. 0: the default of 256 MiB." placeholder:"BYTES"`
	ShutdownTimeout time.Duration `help:"How long requests in progress may take to finish at shutdown. Everything else has 15s more, then the process ends with exit code 1; nothing is lost." default:"15s"`
	SyncDelay       time.Duration `help:"Let each sync of the log take this much longer, to see what a slower disk would do." hidden:""`
	LogLevel        string        `help:"Least severe log records to write: debug, info, warn, error. Default: info, in the demo warn." placeholder:"LEVEL"`
	LogFormat       string        `help:"Log records on stderr as json or, for people, console." enum:"json,console" default:"json"`
}

// Reloads reports whether SIGHUP has the routes file read again. Without one it ends the process, as
// when its terminal is closed.
func (f Flags) Reloads() bool { return f.Routes != "" }

// Options are the settings of a service. A command on a stopped directory has few of them.
type Options struct {
	Flags

	NATS                bus.External     // without a URL: the embedded server
	NATSTLS             *tls.Config      // of NATSListen; nil: none
	WebhookSchedule     webhook.Schedule // nil: the default
	Routes              routesfile.Source
	Reload              <-chan os.Signal // each has the routes file read again; nil: none
	Limits              domain.Limits    // of projects that have none of their own
	FailedAuthPerMinute int              // per client address; 0: no limit
	Log                 zerolog.Logger
	FlushLog            func() error // writes records that Log has kept back; nil: there are none
	Stderr              io.Writer    // for progress
	Reading             bool         // by a command that only reads: the directory may be read-only
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

// app is a data directory with what runs on it: everything in a server, and for a command on a
// stopped directory the directory's own parts.
type app struct {
	Options
	dir   datadir.Dir
	parts *process.Parts

	// Of the directory.
	store     *bolt.Store       // its own file
	node      *clusternode.Node // its part in a cluster; nil: it is alone
	ledger    eventstore.Ledger // of the file, or in a cluster of all nodes
	ids       *domain.IDs
	erased    chan struct{} // holds a token while bytes of an erasure are still in the files
	links     *checkout.Links
	cookies   *account.Keys
	secrets   *webhook.Secrets
	views     *projections.Engine
	signed    *checkpoints.Signer
	acts      *actLog
	lanes     *delivery.Lanes
	consumers *bus.Consumers
	keyTimes  *keyTimes
	settling  sync.Mutex      // see httpadmin.Config
	stopping  context.Context // ends when streaming answers must end

	// Of a server. metrics are nil for a command, which has none; duties are those of work that goes on
	// in a node's next term, and are shown while it does it.
	metrics, duties *prometheus.Registry

	term      atomic.Pointer[prometheus.Registry] // those of a node while it is the leader
	tracer    *tracing.Tracer                     // nil: nothing is traced
	room      process.Connections
	seed      func(route string) // lets a route's counters begin with 0
	listener  net.Listener       // of the public address
	at        Addresses
	startedAt domain.Instant
	nats      *embedded.Server // nil: an external one
	conn      *bus.Conn
	routes    *routes
	collector *collect.Collector
	enforcer  *signals.Enforcer
	published *bus.Checkpoints
	watchdog  atomic.Pointer[notifier.Watchdog] // nil: there is nothing to watch
}

// starter says how a part is started.
type starter struct {
	part  string
	start func(context.Context) (process.Part, error)
}

// directory are the parts that a command needs too.
func (a *app) directory() []starter {
	return []starter{
		{"event log", a.openLog},
		{"projections", a.openViews},
		{"webhooks", a.openWebhooks},
		{"consumers", a.openConsumers},
		{"times of keys", a.openKeyTimes},
		{"last checkpoint", a.compareLog},
	}
}

// server are all parts of a server in the order of their start; they stop in the reverse order. What
// the leader alone does for the whole log is a list of its own, in startDuties.
func (a *app) server() []starter {
	return slices.Concat([]starter{{"process", a.tune}}, a.directory(), []starter{
		{"scrubbing", a.openScrub},
		{"listener", a.listen},
		{"NATS", a.connect},
		{"routes", a.openRoutes},
		{"acts of other nodes", a.followActs},
		{"leadership", a.lead},
		{"checkpoints", a.signCheckpoints},
		{"requests", a.answer},
		{"cluster", a.takePart},
	})
}

// start starts parts one after the other.
func (a *app) start(ctx context.Context, all []starter) error {
	for _, one := range all {
		if err := a.parts.Start(ctx, one.part, one.start); err != nil {
			return err
		}
	}
	return nil
}

// Run serves a data directory until ctx ends or a part fails. Once everything answers it calls
// ready. The stop has a bound, see process.Shutdown.
func Run(ctx context.Context, d datadir.Dir, o Options, ready func(Addresses) error) (err error) {
	end := process.NewShutdown(o.ShutdownTimeout, o.Log)
	a := &app{Options: o, dir: d, parts: end.Parts, metrics: newMetrics(), duties: prometheus.NewRegistry()}
	defer context.AfterFunc(ctx, end.Begin)()
	serving := false
	defer func() {
		err = errors.Join(err, end.Stop())
		if serving && err != nil {
			o.Log.Error().Err(err).Msg("payledger ended")
			err = &LoggedError{err}
		}
	}()
	err = a.start(ctx, a.server())
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		o.Log.Warn().Err(err).Msg("payledger is stopped before it is ready")
		return nil
	}
	if err != nil {
		return err
	}
	serving = true
	a.up()
	if err := ready(a.at); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		o.Log.Info().Msg("shutting down")
		a.withdraw()
	case <-a.parts.Failed().Done():
		a.ShutdownTimeout = min(a.ShutdownTimeout, time.Second) // what waits for the part is not answered any more
	}
	return nil
}

// tune makes the process one that serves.
func (a *app) tune(context.Context) (part process.Part, err error) {
	a.parts.Add("log records", process.Part{Stop: a.FlushLog})
	a.parts.Add("logs of libraries", process.Part{Stop: process.TakeLibraryLogs(a.Log)})
	a.parts.Add("heap", process.Part{Stop: process.RoomyHeap()})
	a.parts.Add("processors", process.Part{Stop: process.MoreProcessors()})
	a.tracer, part.Stop = process.StartTraces(a.Log, a.metrics)
	a.room, err = process.RoomFor(a.MaxConnections, a.MaxConnectionsPerAddress, a.Log)
	return part, err
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
