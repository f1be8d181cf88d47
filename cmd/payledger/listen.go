package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payledger/httpapi/conns"
)

// listenCmd receives notifications, verifies them and says what came.
type listenCmd struct {
	Addr      string   `help:"Address to listen on; a bare :PORT is on loopback, port 0 picks a free one. Default: 127.0.0.1:8099." default:"127.0.0.1:8099" placeholder:"ADDR"`
	Secret    []string `help:"Signing secret of the endpoint; may be given more than once, as while one is rotated. In the environment nobody sees it in the list of processes." placeholder:"whsec_…" env:"PAYLEDGER_WEBHOOK_SECRET"`
	ForwardTo string   `help:"Pass what was verified on to this URL, headers and body unchanged, and answer with what comes back." placeholder:"URL"`
	FailFirst int      `help:"Answer 500 to the first N attempts of each notification, so that retries can be watched." placeholder:"N"`
}

// Help is shown by --help.
func (listenCmd) Help() string {
	return `A receiver of webhooks that can be trusted: it checks the signature and the time of every
request with the Standard Webhooks library, answers 401 to what does not verify, and prints a
line for each notification. A notification whose sequence is not above the last one seen of
its payment is old news: it is answered 200, so that it does not come again, and is neither
counted nor passed on. What was seen is forgotten at the end; an application of yours keeps
the last sequence with its order.

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

const noSecret = `--secret is missing: without it nothing can be verified.
A secret is shown when its endpoint is made ("payledger webhook add URL", or POST /v1/webhook-endpoints)
and when it is rotated ("payledger webhook rotate-secret ENDPOINT_ID"). "payledger demo --webhook" makes an
endpoint for this command and prints its secret. Give it as --secret whsec_… or in PAYLEDGER_WEBHOOK_SECRET`

// Validate refuses what could verify nothing or anything.
func (c listenCmd) Validate() error {
	if c.FailFirst < 0 {
		return fmt.Errorf("--fail-first %d: want 0 or more", c.FailFirst)
	}
	if _, err := forwardTarget(c.ForwardTo); err != nil {
		return err
	}
	_, err := verifiers(c.Secret)
	return err
}

// minSecret is the shortest secret that Standard Webhooks allows: 24 bytes in
// base64. The library itself takes an empty one, which anybody could sign with.
const minSecret = len("whsec_") + 32

func verifiers(secrets []string) ([]*standardwebhooks.Webhook, error) {
	if len(secrets) == 0 {
		return nil, errors.New(noSecret)
	}
	all := make([]*standardwebhooks.Webhook, len(secrets))
	for i, s := range secrets {
		s = strings.TrimSpace(s)
		w, err := standardwebhooks.NewWebhook(s)
		if err != nil || !strings.HasPrefix(s, "whsec_") || len(s) < minSecret {
			return nil, fmt.Errorf("--secret, number %d: not a secret of a webhook endpoint: want whsec_ and at least 32 characters of base64", i+1)
		}
		all[i] = w
	}
	return all, nil
}

func forwardTarget(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Fragment != "" {
		return nil, fmt.Errorf("--forward-to %q: want http:// or https:// and a host", text)
	}
	return u, nil
}

// endListen is how long requests under way may take to finish at the end.
const endListen = 5 * time.Second

// Run receives until the process is asked to stop.
func (c listenCmd) Run(a *app) (err error) {
	r, err := newReceiver(a, c)
	if err != nil {
		return err
	}
	listener, err := listenTCP(a.ctx, "addr", onLoopback(c.Addr))
	if err != nil {
		return err
	}
	server, err := serveHTTP(listener, r, conns.Config{Name: "receiver", Max: defaultConnections})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), endListen)
		defer cancel()
		err = errors.Join(err, server.shutdown(ctx))
	}()
	fmt.Fprintf(a.stderr, "payledger: listening on http://%s/ for notifications; Ctrl-C ends it\n", reachable(listener.Addr()))
	select {
	case <-a.ctx.Done():
		return nil
	case err := <-r.failed:
		return err
	}
}
