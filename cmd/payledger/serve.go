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

// serveCmd runs the service.
type serveCmd struct {
	admincmd.Directory
	service.Flags

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
	o, err := options(c.Flags, a, service.Options{Limits: domain.DefaultLimits(), FailedAuthPerMinute: 10}, zerolog.InfoLevel)
	if err != nil {
		return err
	}
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

// options reads the flags that serve and demo share. o and level are what they differ in while a flag
// is not given.
func options(f service.Flags, a *cli.App, o service.Options, level zerolog.Level) (service.Options, error) {
	if f.Reloads() {
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		o.Reload = hangups
	}
	o.Flags, o.Stderr = f, a.Stderr
	o.PublicURL = strings.TrimRight(f.PublicURL, "/")
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
		"": level, "debug": zerolog.DebugLevel, "info": zerolog.InfoLevel,
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
	if _, err := o.Routes.Load(connector.Env{Now: time.Now}); err != nil {
		return o, cli.Errorf(cli.ExitUsage, "--routes: %w", err)
	}
	return o, nil
}
