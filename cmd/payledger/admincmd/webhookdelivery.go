package admincmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
	"payledger/httpapi/wire"
)

// attemptResult is the status or the error of an attempt.
func attemptResult(t domain.AttemptObject) string {
	if t.Status == 0 {
		return t.Error
	}
	return strconv.Itoa(t.Status)
}

// lastAttempt is the result of the last attempt, or a dash.
func lastAttempt(d domain.DeliveryObject) string {
	if len(d.Attempts) == 0 {
		return "-"
	}
	return attemptResult(d.Attempts[len(d.Attempts)-1])
}

type webhookDeliveries struct {
	OfProject
	EndpointID string `arg:"" optional:"" help:"Deliveries to this endpoint." json:"endpoint_id,omitzero"`
	Payment    string `help:"Deliveries about this payment and its refund, to all endpoints unless one is named." placeholder:"PAYMENT_ID" json:"payment_id,omitzero"`
	Event      string `help:"Deliveries of this event." placeholder:"EVENT_ID" json:"event_id,omitzero"`
	State      string `help:"In this state: pending, delivered, superseded, given_up, parked, held, cancelled, unconfirmed." placeholder:"STATE" json:"state,omitzero"`
	Paged
}

// Help is shown by --help.
func (webhookDeliveries) Help() string {
	return `States: pending, to be tried; delivered; superseded, because something later was known
before it was sent; given_up after the last attempt; parked, because its target may not be
called; held while the endpoint is disabled; cancelled with the endpoint; unconfirmed, an
outcome that may have been delivered, after the log was restored. Kept for 30 days.
With --json, a line for each delivery.`
}

// Validate refuses a list that is neither of an endpoint nor of a payment.
func (c webhookDeliveries) Validate() error {
	if c.EndpointID == "" && c.Payment == "" {
		return errors.New("deliveries of what? Name an endpoint or give --payment")
	}
	return nil
}

// Run lists the deliveries.
func (c webhookDeliveries) Run(a *cli.App) error {
	line, headings, columns := "GET "+oneEndpoint+"/deliveries", "EVENT, TYPE, PAYMENT, SEQUENCE, STATE, ATTEMPTS, LAST, NEXT", 8
	if c.EndpointID == "" {
		line, headings, columns = "GET /admin/projects/{project}/payments/{payment_id}/deliveries", headings+", ENDPOINT", columns+1
	}
	return table(a, c, line, "No deliveries.", headings, func(s domain.DeliveryObject) []any {
		return []any{s.EventID, s.Type, s.PaymentID, s.Sequence, s.State, len(s.Attempts), lastAttempt(s), s.NextAttemptAt, s.EndpointID}[:columns]
	})
}

type webhookDelivery struct {
	OfEndpoint
	EventID string `arg:"" help:"Event, as \"webhook deliveries\" shows it." json:"event_id"`
}

// Run shows the delivery.
func (c webhookDelivery) Run(a *cli.App) error {
	return show(a, c, "GET "+oneEndpoint+"/deliveries/{event_id}", func(s domain.DeliveryObject) error { return printDelivery(a, s) })
}

// printDelivery prints a delivery with its attempts.
func printDelivery(a *cli.App, s domain.DeliveryObject) error {
	rows := [][2]string{
		{"Event", s.EventID.String() + "  " + string(s.Type)},
		{"Payment", some("%s", s.PaymentID) + some("  sequence %d", s.Sequence)},
		{"Endpoint", s.EndpointID},
		{"State", string(s.State)},
		{"Next", some("%s", s.NextAttemptAt)},
	}
	for _, t := range s.Attempts {
		attempt := fmt.Sprintf("%s  %s  after %d ms", t.At, attemptResult(t), t.DurationMS)
		rows = append(rows, [2]string{"Attempt", attempt + some("  %q", strings.TrimSpace(t.Answer))})
	}
	return a.PrintRows(rows)
}

type webhookTest struct{ OfEndpoint }

// Run sends a test and waits for the first attempt.
func (c webhookTest) Run(a *cli.App) error { return c.send(a, "/test") }

type webhookResend struct {
	OfEndpoint
	EventID string `arg:"" help:"Event, as \"webhook deliveries\" shows it."`
}

// Help is shown by --help.
func (webhookResend) Help() string {
	return `Only the newest event of a payment that the endpoint was ever sent can be sent again: an
earlier status must not follow a later one. For everything an endpoint missed, use
"payledger webhook recover".`
}

// Run sends the notification again and waits for the first attempt.
func (c webhookResend) Run(a *cli.App) error {
	return c.send(a, "/deliveries/"+url.PathEscape(c.EventID)+"/resend")
}

// attemptWait is how long a command waits for the end of an attempt: a little
// longer than one takes at most.
const attemptWait = 20 * time.Second

// send enqueues a notification by a POST to a path below the endpoint's and, if a server
// runs that sends it, prints the result of the first attempt. A failed one is an error.
func (c OfEndpoint) send(a *cli.App, path string) error {
	return asking(a, c, "GET "+oneEndpoint, func(m *cli.Client, r request) error {
		var raw jsontext.Value
		var s domain.DeliveryObject
		ask := func(method, path string) error {
			err := m.Call(a.Ctx, method, r.path+path, nil, &raw)
			if err == nil {
				s = domain.DeliveryObject{}
				err = json.Unmarshal(raw, &s)
			}
			return err
		}
		if err := ask(http.MethodPost, path); err != nil {
			return err
		}
		if !m.Live {
			return a.Print(raw, "%s %s is queued. It is sent once a server runs on %s.\n", s.Type, s.EventID, c.Data)
		}
		ctx, cancel := context.WithTimeout(a.Ctx, attemptWait)
		defer cancel()
		late := false
		for before := len(s.Attempts); s.State == domain.DeliveryPending && len(s.Attempts) <= before && !late; {
			select {
			case <-ctx.Done():
				late = true
			case <-time.After(50 * time.Millisecond):
				if err := ask(http.MethodGet, "/deliveries/"+s.EventID.String()); err != nil {
					return err
				}
			}
		}
		err := printed(a, raw, func(s domain.DeliveryObject) error { return printDelivery(a, s) })
		switch {
		case late:
			return errors.Join(err, fmt.Errorf("%s was not tried within %s: see \"payledger webhook delivery %s %s\"", s.EventID, attemptWait, c.EndpointID, s.EventID))
		case err != nil || s.State == domain.DeliveryDelivered:
			return err
		case s.NextAttemptAt != nil:
			return fmt.Errorf("the endpoint did not take it: %s; the next attempt is at %s", lastAttempt(s), s.NextAttemptAt)
		}
		return fmt.Errorf("the endpoint did not take it: %s; the delivery is %s", lastAttempt(s), s.State)
	})
}

type webhookRecover struct {
	OfEndpoint
	Since string `help:"Since when: a time (2026-11-20T10:15:30Z), or how long ago (36h)." required:"" placeholder:"TIME|DURATION" json:"since"`
}

// Help is shown by --help.
func (webhookRecover) Help() string {
	return `After an outage of the receiver, or when the endpoint was disabled: each payment of which
an event since then was given up, parked or held is sent once, with its newest event. Earlier
events are not sent: they would be outdated.`
}

// Run enqueues the newest notification of each payment.
func (c webhookRecover) Run(a *cli.App) error {
	if ago, err := time.ParseDuration(c.Since); err == nil {
		if ago < 0 {
			return cli.Errorf(cli.ExitUsage, "--since %s is to come: give how long ago, such as 36h, or a time", c.Since)
		}
		c.Since = time.Now().Add(-ago).UTC().Format(time.RFC3339Nano)
	}
	return show(a, c, "POST "+oneEndpoint+"/recover", func(done wire.Recovery) error { return a.Print(done, "Enqueued: %d\n", done.Enqueued) })
}
