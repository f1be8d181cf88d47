package admincmd

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/cmd/payledger/service"
	"payledger/domain"
)

type webhookDeliveriesCmd struct {
	ofProject
	EndpointID string `arg:"" optional:"" help:"Deliveries to this endpoint."`
	Payment    string `help:"Deliveries about this payment and its refund, to all endpoints unless one is named." placeholder:"PAYMENT_ID"`
	Event      string `help:"Deliveries of this event." placeholder:"EVENT_ID"`
	State      string `help:"In this state: pending, delivered, superseded, given_up, parked, held, cancelled, unconfirmed." placeholder:"STATE"`
	Limit      int    `help:"Show at most this many; 0: all." default:"50" placeholder:"N"`
}

// Help is shown by --help.
func (webhookDeliveriesCmd) Help() string {
	return `States: pending, to be tried; delivered; superseded, because something later was known
before it was sent; given_up after the last attempt; parked, because its target may not be
called; held while the endpoint is disabled; cancelled with the endpoint; unconfirmed, an
outcome that may have been delivered, after lanes.db was lost. Kept for 30 days.
With --json, a line for each delivery.`
}

// Validate refuses a list that is neither of an endpoint nor of a payment.
func (c webhookDeliveriesCmd) Validate() error {
	if c.EndpointID == "" && c.Payment == "" {
		return errors.New("deliveries of what? Name an endpoint or give --payment")
	}
	return errors.Join(checkLimit(c.Limit), c.Directory.Validate())
}

// Run lists the deliveries.
func (c webhookDeliveriesCmd) Run(a *console.App) error {
	return c.withProject(a, service.CoreOptions{}, func(m *adminclient.Client, path string) error {
		q := url.Values{}
		setUnlessEmpty(q, "state", c.State)
		setUnlessEmpty(q, "event_id", c.Event)
		if c.EndpointID != "" {
			path = endpointPath(path, c.EndpointID)
			setUnlessEmpty(q, "payment_id", c.Payment)
		} else {
			path += "/payments/" + url.PathEscape(c.Payment)
		}
		return c.list(a, m, path+"/deliveries", q)
	})
}

func (c webhookDeliveriesCmd) list(a *console.App, m *adminclient.Client, path string, q url.Values) error {
	heading := []string{"EVENT", "TYPE", "PAYMENT", "SEQUENCE", "STATE", "ATTEMPTS", "LAST", "NEXT"}
	if c.EndpointID == "" {
		heading = append(heading, "ENDPOINT")
	}
	var rows [][]string
	err := list(a.Ctx, m, path, q, c.Limit, func(raw jsontext.Value) error {
		if a.JSON {
			return a.PrintJSON(raw)
		}
		var s domain.DeliveryObject
		if err := decode(raw, &s); err != nil {
			return err
		}
		row := []string{
			s.EventID.String(), string(s.Type), orDash(s.PaymentID), strconv.FormatUint(s.Sequence, 10), string(s.State),
			strconv.Itoa(len(s.Attempts)), lastAttempt(s), orDash(s.NextAttemptAt), s.EndpointID,
		}
		rows = append(rows, row[:len(heading)])
		return nil
	})
	if err != nil || a.JSON {
		return err
	}
	return a.PrintTable("No deliveries.", heading, rows)
}

// orDash is a dash for nothing.
func orDash[T fmt.Stringer](v *T) string {
	if v == nil {
		return "-"
	}
	return (*v).String()
}
