// Command payledger is an event-sourced payment ledger in one binary: the
// merchants' API, the payment page, the event log, the embedded NATS JetStream
// and the tools to run it.
//
// One file holds one command: its flags, its help and what it prints. What it does is in the
// packages below. Commands that only call the admin interface are in package admincmd.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/service"
	"payledger/eventstore"
)

// commandLine is the command tree. Flags can also be set by an environment variable,
// PAYLEDGER_<FLAG> unless their tag env has another or none, and those that have one in the
// file named by --config, in this order of precedence: flag, environment, file, default.
type commandLine struct {
	Config configFile `help:"Read flags from this JSON file: an object from flag names to values." placeholder:"FILE"`
	JSON   bool       `help:"Print data as JSON: one object on one line, of a list one line for each row." name:"json"`

	As string `help:"Name of the actor, for \"payledger audit\". Default: who ran sudo, else the user of the process." placeholder:"NAME" name:"as"`

	PrintVersion kong.VersionFlag `help:"Print the version." name:"version" env:"-"`

	Demo       demoCmd            `cmd:"" help:"Run everything on this machine, ready to take a first payment."`
	Init       initCmd            `cmd:"" help:"Make a new data directory."`
	Serve      serveCmd           `cmd:"" help:"Run the service on a data directory."`
	Cluster    clusterCmd         `cmd:"" help:"Keep the log on three nodes, any one of which may fail."`
	Status     admincmd.Status    `cmd:"" help:"Show whether a server runs on a data directory, and how it is."`
	Project    admincmd.Project   `cmd:"" help:"Register and change merchant projects."`
	Key        admincmd.Key       `cmd:"" help:"Issue and revoke API keys."`
	Payments   admincmd.Payments  `cmd:"" help:"List, find and show payments, and ask their providers."`
	Erase      admincmd.Erase     `cmd:"" help:"Erase what payments were for: their descriptions and payloads."`
	Webhook    admincmd.Webhook   `cmd:"" help:"Add and change webhook endpoints, see deliveries and send them again."`
	Listen     listenCmd          `cmd:"" help:"Receive webhooks on this machine: verify them and print a line for each."`
	Sandbox    admincmd.Sandbox   `cmd:"" help:"Play the payment provider: decide the outcome of a payment or refund."`
	Routes     routesCmd          `cmd:"" help:"Check the routes file, list routes and read the file again."`
	Signals    admincmd.Signals   `cmd:"" help:"See, retry and discard providers' signals that could not be judged."`
	NATS       admincmd.NATS      `cmd:"" name:"nats" help:"Let other programs read events from the embedded NATS server."`
	Events     admincmd.Events    `cmd:"" help:"Read the event log."`
	Audit      admincmd.Audit     `cmd:"" help:"Show what operators and merchants' keys did, and who it was."`
	Log        logCmd             `cmd:"" help:"Make the event log evidence: its verifier key and signed checkpoints."`
	Suspense   admincmd.Suspense  `cmd:"" help:"See money that could not count as its payment, and return it."`
	Dispute    admincmd.Dispute   `cmd:"" help:"Record disputes of payments that a provider tells of."`
	Settlement settlementCmd      `cmd:"" help:"Import what providers report to have paid out, and clear what does not fit."`
	Reconcile  admincmd.Reconcile `cmd:"" help:"Compare what was paid here with what providers report to have paid out."`
	Payout     admincmd.Payout    `cmd:"" help:"Record payouts: what arrived from providers, what you paid to merchants."`
	Balance    admincmd.Balance   `cmd:"" help:"Print the books: balances, statements, late funds."`
	Export     exportCmd          `cmd:"" help:"Write the log out: JSON Lines, CSV, an hledger journal, an auditor's bundle."`
	Verify     verifyCmd          `cmd:"" help:"Check that nothing in the log was altered and nothing is missing."`
	Proof      admincmd.Proof     `cmd:"" help:"Print a payment's receipt: its events, and the proof that the log holds them."`
	Replay     replayCmd          `cmd:"" help:"Fold the log from its first event: check the projections, or see a past state."`
	Backup     backupCmd          `cmd:"" help:"Copy the event log to a file, also while a server runs."`
	Restore    restoreCmd         `cmd:"" help:"Put a backup, an export, or what several of them and EVENTS have, in the place of a directory's event log."`
	Version    versionCmd         `cmd:"" help:"Print the version."`

	Connector connectorCmd `cmd:"" help:"Write an adapter to a payment provider: what it has to offer, and a check of it."`

	Completion cli.Completion `cmd:"" help:"Print the script that completes commands in a shell."`
	Man        cli.Man        `cmd:"" help:"Print the manual page of a command, or write all of them."`
	Words      cli.Words      `cmd:"" name:"__words" hidden:"" help:"List the possible next words, for the scripts of completion."`

	Licenses licensesCmd `cmd:"" help:"Print the licences of the software that this program contains."`
}

func main() {
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00" // it is the library's, for the whole process
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the default action is back: a second one ends a
	// shutdown that takes too long.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run parses the arguments, runs the command and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c commandLine
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("payledger"),
		kong.Description(description),
		kong.DefaultEnvars("PAYLEDGER"),
		kong.Writers(stdout, stderr),
		kong.Vars{"version": versionLine(), "release": release()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Exit(func(code int) { exited = code }),
	)
	if err != nil {
		panic(err) // the command tree itself is wrong
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		return report(stderr, usageError(err))
	}
	command, reloads := reflect.TypeAssert[interface{ Reloads() bool }](parsed.Selected().Target.Addr())
	if (!reloads || !command.Reloads()) && !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP) // the terminal was closed
		defer stop()
		defer context.AfterFunc(ctx, stop)()
	}
	app := &cli.App{Ctx: ctx, Stdout: stdout, Stderr: stderr, JSON: c.JSON, As: cmp.Or(c.As, os.Getenv("SUDO_USER"), cli.ThisUser())}
	if _, err := app.Actor(); err != nil {
		return report(stderr, cli.WithCode(cli.ExitUsage, err))
	}
	err = parsed.Run(app)
	if asked := context.Cause(ctx); asked != nil && (errors.Is(err, asked) || errors.Is(err, context.Canceled)) {
		err = asked // which is the fault of no file and no server
	}
	if p, refused := errors.AsType[*cli.Problem](err); refused {
		p.Members = membersOf(parsed.Selected())
	}
	return report(stderr, err)
}

// membersOf names what can be given to a command as the ledger calls it.
func membersOf(n *kong.Node) map[string]cli.Member {
	all := make(map[string]cli.Member)
	for _, v := range n.Positional {
		all[strings.ReplaceAll(v.Name, "-", "_")] = cli.Member{Name: strings.ToUpper(strings.ReplaceAll(v.Name, "-", "_")), Help: v.Help}
	}
	for _, f := range n.Flags {
		of := cli.Member{Name: "--" + f.Name, Help: f.Help}
		sent := cmp.Or(strings.TrimSuffix(f.Tag.Get("json"), ",omitzero"), f.Name) // --from is created_from
		all[strings.ReplaceAll(f.Name, "-", "_")], all[sent] = of, of
	}
	return all
}

const description = `An event-sourced payment ledger in one binary.

Start with "payledger demo". To run it for real: "payledger init --data DIR",
then "payledger serve --data DIR", then "payledger project create NAME --data DIR".

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 data directory or backup missing,
damaged or not ours, 4 data directory in use, 5 refused by the ledger, 6 address in use
or not available, 7 verification failed.`

func usageError(err error) error {
	if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil && parse.Context.Selected() != nil {
		return cli.Errorf(cli.ExitUsage, "%w\nRun \"%s --help\" for what it takes", err, parse.Context.Selected().FullPath())
	}
	return cli.Errorf(cli.ExitUsage, "%w\nRun \"payledger --help\" for the commands", err)
}

// report prints an error and returns its exit code.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	if _, logged := errors.AsType[*service.LoggedError](err); !logged {
		for line := range strings.Lines(fmt.Sprintf("payledger: %v\n", err)) {
			fmt.Fprintln(stderr, cli.Visible(strings.TrimSuffix(line, "\n")))
		}
		if errors.Is(err, syscall.ENOMEM) {
			fmt.Fprintln(stderr, "No file is damaged. Files are mapped into 64 GiB of address space each, which takes no memory:\n"+
				"lift the limit of the process's address space (ulimit -v, LimitAS= of systemd).")
			return cli.ExitFailed
		}
		if errors.Is(err, fs.ErrPermission) {
			fmt.Fprintf(stderr, "This process runs as user %d: run it as the user who owns the file, or give the file to this one (chown).\n", os.Geteuid())
		}
	}
	if e, ok := errors.AsType[*cli.ExitError](err); ok {
		return e.Code
	}
	if _, ok := errors.AsType[*eventstore.CorruptError](err); ok {
		return cli.ExitDirectory
	}
	return cli.ExitFailed
}
