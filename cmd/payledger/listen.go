package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/process"
	"payledger/cmd/payledger/receive"
	"payledger/httpapi/conns"
)

// listenCmd receives notifications, verifies and prints them.
type listenCmd struct {
	Addr      string   `help:"Address to listen on; a bare :PORT is on loopback, port 0 picks a free one. Default: 127.0.0.1:8099." default:"127.0.0.1:8099" placeholder:"ADDR"`
	Secret    []string `help:"Signing secret of the endpoint; may be given more than once, as while one is rotated. In the environment it is not in the list of processes." placeholder:"whsec_…" env:"PAYLEDGER_WEBHOOK_SECRET"`
	ForwardTo string   `help:"Forward verified notifications to this URL, headers and body unchanged, and answer with its response." placeholder:"URL"`
	FailFirst int      `help:"Answer 500 to the first N attempts of each notification, so that retries can be watched." placeholder:"N"`
}

// Help is shown by --help.
func (listenCmd) Help() string {
	return `A receiver of webhooks that can be trusted: it checks the signature and the time of every
request with the Standard Webhooks library, answers 401 to what does not verify, and prints a
line for each notification. A notification whose sequence is not above the last one seen of
its payment is outdated: it is answered 200, so that it is not sent again, and is neither
counted nor forwarded. Sequences are forgotten when the command ends; your application should
keep the last sequence with its order.

See one arrive, in two terminals:

  payledger demo --webhook

prints the endpoint's secret and the line for the other terminal:

  payledger listen --secret whsec_…

Then create a payment in the demo, open its link and press Pay: "payment.paid" arrives.

In front of an application of yours, which then needs to verify nothing as long as only this
machine reaches it:

  payledger listen --secret whsec_… --forward-to http://127.0.0.1:3000/payments

With a running "payledger serve": it calls addresses on this machine only when it was started
with --webhook-allow-private. Notifications go to stdout, what was refused to stderr.`
}

// Validate refuses flags with which nothing could be verified.
func (c listenCmd) Validate() error {
	_, err := receive.New(c.options())
	return err
}

func (c listenCmd) options() receive.Options {
	return receive.Options{Secrets: c.Secret, ForwardTo: c.ForwardTo, FailFirst: c.FailFirst}
}

// endListen is how long requests under way may take to finish at the end.
const endListen = 5 * time.Second

// Run receives until the process is asked to stop.
func (c listenCmd) Run(a *cli.App) (err error) {
	o := c.options()
	o.JSON, o.Stdout, o.Stderr = a.JSON, a.Stdout, a.Stderr
	r, err := receive.New(o)
	if err != nil {
		return err
	}
	listener, err := process.Listen(a.Ctx, "addr", process.OnLoopback(c.Addr))
	if err != nil {
		return err
	}
	server, err := process.Serve(listener, r, conns.Config{Name: "receiver", Max: process.DefaultConnections})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.Ctx), endListen)
		defer cancel()
		err = errors.Join(err, server.Shutdown(ctx))
	}()
	fmt.Fprintf(a.Stderr, "payledger: listening on http://%s/ for notifications; Ctrl-C ends it\n", process.Reachable(listener.Addr()))
	select {
	case <-a.Ctx.Done():
		return nil
	case err := <-r.Broken():
		return err
	}
}
