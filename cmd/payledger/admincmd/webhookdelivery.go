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

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
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

// askDelivery asks for something whose answer is a delivery.
func askDelivery(ctx context.Context, m *adminclient.Client, method, path string) (s domain.DeliveryObject, raw jsontext.Value, err error) {
	if err = m.Call(ctx, method, path, nil, &raw); err == nil {
		err = decode(raw, &s)
	}
	return s, raw, err
}

func deliveryPath(endpoint, event string) string {
	return endpoint + "/deliveries/" + url.PathEscape(event)
}

type webhookTestCmd struct{ ofEndpoint }

// Run sends a test and waits for the first attempt.
func (c webhookTestCmd) Run(a *console.App) error {
	return c.withEndpoint(a, func(m *adminclient.Client, path string) error { return c.send(a, m, path, path+"/test") })
}

type webhookResendCmd struct {
	ofEndpoint
	EventID string `arg:"" help:"Event, as \"webhook deliveries\" shows it."`
}

// Help is shown by --help.
func (webhookResendCmd) Help() string {
	return `Only the newest event of a payment that the endpoint was ever sent can be sent again: an
earlier status must not follow a later one. For everything an endpoint missed, use
"payledger webhook recover".`
}

// Run sends the notification again and waits for the first attempt.
func (c webhookResendCmd) Run(a *console.App) error {
	return c.withEndpoint(a, func(m *adminclient.Client, path string) error {
		return c.send(a, m, path, deliveryPath(path, c.EventID)+"/resend")
	})
}

// attemptWait is how long a command waits for the end of an attempt: a little
// longer than one takes at most.
const attemptWait = 20 * time.Second

// send enqueues a notification and, if a server runs that sends it, prints the
// result of the first attempt. A failed one is an error.
func (c ofEndpoint) send(a *console.App, m *adminclient.Client, endpoint, path string) error {
	s, raw, err := askDelivery(a.Ctx, m, http.MethodPost, path)
	if err != nil {
		return err
	}
	if !m.Live {
		return a.Print(raw, "%s %s is in line. It is sent once a server runs on %s.\n", s.Type, s.EventID, c.Data)
	}
	ctx, cancel := context.WithTimeout(a.Ctx, attemptWait)
	defer cancel()
	for before := len(s.Attempts); s.State == domain.DeliveryPending && len(s.Attempts) <= before; {
		select {
		case <-ctx.Done():
			return errors.Join(printDelivery(a, s, raw), fmt.Errorf("%s was not tried within %s: see \"payledger webhook delivery %s %s\"",
				s.EventID, attemptWait, c.EndpointID, s.EventID))
		case <-time.After(50 * time.Millisecond):
		}
		if s, raw, err = askDelivery(a.Ctx, m, http.MethodGet, deliveryPath(endpoint, s.EventID.String())); err != nil {
			return err
		}
	}
	if err := printDelivery(a, s, raw); err != nil || s.State == domain.DeliveryDelivered {
		return err
	}
	if s.NextAttemptAt != nil {
		return fmt.Errorf("the endpoint did not take it: %s; the next attempt is at %s", lastAttempt(s), s.NextAttemptAt)
	}
	return fmt.Errorf("the endpoint did not take it: %s; the delivery is %s", lastAttempt(s), s.State)
}

// printDelivery prints a delivery with its attempts.
func printDelivery(a *console.App, s domain.DeliveryObject, raw jsontext.Value) error {
	if a.JSON {
		return a.PrintJSON(raw)
	}
	fmt.Fprintf(a.Stdout, "Event     %s  %s\n", s.EventID, s.Type)
	if s.PaymentID != nil {
		fmt.Fprintf(a.Stdout, "Payment   %s  sequence %d\n", s.PaymentID, s.Sequence)
	}
	fmt.Fprintf(a.Stdout, "Endpoint  %s\nState     %s\n", s.EndpointID, s.State)
	if s.NextAttemptAt != nil {
		fmt.Fprintf(a.Stdout, "Next      %s\n", s.NextAttemptAt)
	}
	var err error
	for _, t := range s.Attempts {
		_, err = fmt.Fprintf(a.Stdout, "Attempt   %s  %s  after %d ms", t.At, attemptResult(t), t.DurationMS)
		if text := strings.TrimSpace(t.Answer); text != "" {
			_, err = fmt.Fprintf(a.Stdout, "  %q", text)
		}
		fmt.Fprintln(a.Stdout)
	}
	return err
}

type webhookDeliveryCmd struct {
	ofEndpoint
	EventID string `arg:"" help:"Event, as \"webhook deliveries\" shows it."`
}

// Run shows the delivery.
func (c webhookDeliveryCmd) Run(a *console.App) error {
	return c.withEndpoint(a, func(m *adminclient.Client, path string) error {
		s, raw, err := askDelivery(a.Ctx, m, http.MethodGet, deliveryPath(path, c.EventID))
		if err != nil {
			return err
		}
		return printDelivery(a, s, raw)
	})
}

type webhookRecoverCmd struct {
	ofEndpoint
	Since string `help:"Since when: a time (2026-11-20T10:15:30Z), or how long ago (36h)." required:"" placeholder:"TIME|DURATION"`
}

// Help is shown by --help.
func (webhookRecoverCmd) Help() string {
	return `After an outage of the receiver, or when the endpoint was disabled: each payment of which
an event since then was given up, parked or held is sent once, with its newest event. Earlier
events are not sent: they would be outdated.`
}

// Run enqueues the newest notification of each payment.
func (c webhookRecoverCmd) Run(a *console.App) error {
	since := c.Since
	if ago, err := time.ParseDuration(since); err == nil {
		since = time.Now().Add(-ago).UTC().Format(time.RFC3339Nano)
	}
	return c.withEndpoint(a, func(m *adminclient.Client, path string) error {
		var done wire.Recovery
		if err := m.Call(a.Ctx, http.MethodPost, path+"/recover", map[string]string{"since": since}, &done); err != nil {
			return err
		}
		return a.Print(done, "In line: %d\n", done.Enqueued)
	})
}
