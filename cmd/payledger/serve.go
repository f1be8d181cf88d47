package main

import (
	"context"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/cmd/payledger/routesfile"
	"payledger/cmd/payledger/service"
	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/notifier/connector"
	"payledger/notifier/webhook"
)

// serveFlags are the flags serve and demo share.
type serveFlags struct {
	Listen      string `help:"Address of the merchants' API and the payment page; port 0 picks a free one. Default: 127.0.0.1:8080." default:"127.0.0.1:8080" placeholder:"ADDR"`
	PublicURL   string `help:"URL under which customers and merchants reach --listen; payment links begin with it. Default: http:// and the address, or localhost in place of all interfaces." placeholder:"URL" name:"public-url"`
	AdminListen string `help:"Address of /metrics and /debug/pprof; a bare :PORT is on loopback. Default: none." placeholder:"ADDR"`

	nodeListen
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

// serveCmd runs the service.
type serveCmd struct {
	admincmd.Directory
	serveFlags

	UntilStdinEnds bool `help:"Stop when standard input ends, as it does with the process that started this one." hidden:""`
}

// Help is shown by --help.
func (serveCmd) Help() string {
	return `Runs on a directory made by "payledger init" until it is interrupted, then lets
requests under way finish. It is ready when GET /readyz answers 200.

TLS of --listen is the task of a proxy in front; give the outside address with --public-url.
--nats-listen has a separate certificate, --nats-tls-cert.`
}

// Run serves until the process is asked to stop.
func (c serveCmd) Run(a *cli.App) error {
	reload, done := c.hangups()
	defer done()
	o, err := c.options(a, serveDefaults{domain.DefaultLimits(), 10, zerolog.InfoLevel})
	if err != nil {
		return err
	}
	o.Reload = reload
	ctx := a.Ctx
	if c.UntilStdinEnds {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		go func() { // until the process ends
			defer stop()
			_, _ = io.Copy(io.Discard, os.Stdin)
		}()
	}
	return service.Run(ctx, datadir.Dir(c.Data), o, func(at service.Addresses) error {
		if a.JSON {
			return a.PrintJSON(at)
		}
		return nil
	})
}

// serveDefaults are where serve and demo differ while a flag is not given.
type serveDefaults struct {
	limits   domain.Limits
	failures int // failed authentications a minute and address
	logLevel zerolog.Level
}

// options reads the shared flags.
func (f serveFlags) options(a *cli.App, defaults serveDefaults) (service.Options, error) {
	o := service.Options{
		Listen: f.Listen, PublicURL: strings.TrimRight(f.PublicURL, "/"), AdminListen: f.AdminListen,
		NATSListen: f.NATSListen, NodeListen: string(f.NodeListen), MinFree: f.MinFree, SyncDelay: f.SyncDelay, ShutdownTimeout: f.ShutdownTimeout,
		Stderr: a.Stderr, Sandbox: f.Sandbox, Limits: defaults.limits, FailedAuthPerMinute: defaults.failures, Connections: f.MaxConnections, PerAddress: f.MaxConnectionsPerAddress, WebhookAllowPrivate: f.WebhookAllowPrivate,
	}
	if f.WebhookRetrySchedule != "" {
		var err error
		if o.WebhookSchedule, err = webhook.ParseSchedule(f.WebhookRetrySchedule); err != nil {
			return o, cli.Errorf(cli.ExitUsage, "--webhook-retry-schedule: %w", err)
		}
	}
	for _, one := range []struct{ given, to *int }{
		{f.RateWrites, &o.Limits.RateWrites},
		{f.RateReads, &o.Limits.RateReads},
		{f.RateCustomers, &o.Limits.RateCustomers},
		{f.RateAuthFailures, &o.FailedAuthPerMinute},
	} {
		if one.given != nil {
			*one.to = *one.given
		}
	}
	o.Limits.SessionIdleSeconds, o.Limits.SessionMaxSeconds = int(f.SessionIdle.Seconds()), int(f.SessionMax.Seconds())
	if faults := o.Limits.Validate(); len(faults) > 0 {
		flag, unit := faults[0].Field, ""
		if name, ok := strings.CutSuffix(flag, "_seconds"); ok {
			flag, unit = name, " seconds"
		}
		least, greatest := domain.LimitBounds(faults[0].Field)
		return o, cli.Errorf(cli.ExitUsage, "--%s: want %d to %d%s", strings.ReplaceAll(flag, "_", "-"), least, greatest, unit)
	}
	if o.FailedAuthPerMinute < 0 || o.FailedAuthPerMinute > domain.MaxRate {
		return o, cli.Errorf(cli.ExitUsage, "--rate-auth-failures: want 0 to %d", domain.MaxRate)
	}
	if u, err := url.Parse(o.PublicURL); o.PublicURL != "" &&
		(err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil) {
		return o, cli.Errorf(cli.ExitUsage, "--public-url %q: want http:// or https://, a host and at most a path", f.PublicURL)
	}
	if why := edge.URLFault(o.PublicURL); why != "" {
		return o, cli.Errorf(cli.ExitUsage, "--public-url: %s", why)
	}
	if f.NATSURL != "" && f.NATSListen != "" {
		return o, cli.Errorf(cli.ExitUsage, "--nats-listen opens the embedded NATS server, which --nats-url leaves out: give one of them")
	}
	level, known := map[string]zerolog.Level{
		"": defaults.logLevel, "debug": zerolog.DebugLevel, "info": zerolog.InfoLevel,
		"warn": zerolog.WarnLevel, "error": zerolog.ErrorLevel,
	}[f.LogLevel]
	if !known {
		return o, cli.Errorf(cli.ExitUsage, "--log-level %q: want debug, info, warn or error", f.LogLevel)
	}
	records := process.NewLogWriter(a.Stderr)
	var out io.Writer = records
	if f.LogFormat == "console" {
		out = zerolog.SyncWriter(zerolog.ConsoleWriter{Out: a.Stderr, TimeFormat: "15:04:05.000", NoColor: !cli.IsTerminal(a.Stderr)})
	}
	o.Log, o.FlushLog = zerolog.New(out).Level(level).With().Timestamp().Logger(), records.Flush
	var err error
	if o.NATSTLS, err = f.TLS(time.Now(), o.Log); err != nil {
		return o, err
	}
	if o.NATS, err = f.External(o.Log); err != nil {
		return o, err
	}
	o.Routes = routesfile.Source{File: f.Routes, Sandbox: f.Sandbox, Types: routesfile.Types(), AllowPrivate: f.WebhookAllowPrivate}
	// Before anything is started: the connectors are made again once there is NATS.
	if _, err := o.Routes.Load(connector.Env{Now: time.Now, Log: o.Log}); err != nil {
		return o, cli.Errorf(cli.ExitUsage, "--routes: %w", err)
	}
	return o, nil
}

// reloads reports whether SIGHUP has the routes file read again. Without one it
// ends the process, as when its terminal is closed.
func (f serveFlags) reloads() bool { return f.Routes != "" }

// hangups takes the signals that ask for the routes file to be read again.
func (f serveFlags) hangups() (reload <-chan os.Signal, done func()) {
	if !f.reloads() {
		return nil, func() {}
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}
