package admincmd

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/cmd/payledger/exit"
	"payledger/domain"
)

// Signals groups the commands on signals that could not be judged.
type Signals struct {
	Parked  parkedCmd        `cmd:"" help:"List the signals that could not be judged, oldest first."`
	Retry   parkedRetryCmd   `cmd:"" help:"Have parked signals judged again."`
	Discard parkedDiscardCmd `cmd:"" help:"Drop parked signals for good."`
}

// Help is shown by --help.
func (Signals) Help() string {
	return `A provider's signal that is malformed, or about a payment there is none of, is answered
"parked" and kept in the JetStream stream PARKED, up to 1 GiB; then the oldest are dropped.
Of a body over 4 KiB only the beginning is kept. The commands need a server that runs on
the data directory, with its own NATS server or another.

First list them and correct the sender. After a restore, or once the payment exists, "retry"
the valid ones; "discard" the rest.`
}

// parkedSignals are the parked signals that a command is about.
type parkedSignals struct {
	console.Directory
	ID     []uint64 `arg:"" optional:"" help:"Signals, as \"signals parked\" shows them."`
	All    bool     `help:"All there are now."`
	Reason string   `help:"With --all: only those of this reason: malformed, unknown_payment, unreadable." placeholder:"REASON"`
}

// Validate wants ids or --all.
func (c parkedSignals) Validate() error {
	switch {
	case len(c.ID) == 0 && !c.All:
		return errors.New("which ones? Name some by id or give --all")
	case len(c.ID) > 0 && c.All:
		return errors.New("ids and --all: give one of them")
	case c.Reason != "" && !c.All:
		return errors.New("--reason goes with --all")
	}
	return c.Directory.Validate()
}

type (
	parkedCmd struct {
		console.Directory
		Reason string `help:"Only those of this reason: malformed, unknown_payment, unreadable." placeholder:"REASON"`
		Limit  int    `help:"Show at most this many; 0: all." default:"50" placeholder:"N"`
	}
	parkedRetryCmd   struct{ parkedSignals }
	parkedDiscardCmd struct{ parkedSignals }
)

// Validate refuses a limit that is none.
func (c parkedCmd) Validate() error { return errors.Join(checkLimit(c.Limit), c.Directory.Validate()) }

const parkedPath = "/admin/signals/parked"

// onServer runs fn on the admin interface of a running server.
func onServer(a *console.App, c console.Directory, fn func(*adminclient.Client) error) error {
	return c.With(a, func(m *adminclient.Client) error {
		if !m.Live {
			return fmt.Errorf("no server runs on %s: start one with \"payledger serve --data %s\"", c.Data, c.Data)
		}
		return fn(m)
	})
}

// parkedPages calls fn for each page of parked signals.
func parkedPages(a *console.App, m *adminclient.Client, reason string, fn func(domain.ParkedPage) (more bool, err error)) error {
	const size = "100"
	for after := uint64(0); ; {
		q := url.Values{"after": {strconv.FormatUint(after, 10)}, "limit": {size}}
		setUnlessEmpty(q, "reason", reason)
		var page domain.ParkedPage
		if err := m.Call(a.Ctx, http.MethodGet, parkedPath+"?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		more, err := fn(page)
		if err != nil || !more || page.Next == 0 {
			return err
		}
		after = page.Next
	}
}

// Run lists the parked signals.
func (c parkedCmd) Run(a *console.App) error {
	return onServer(a, c.Directory, func(m *adminclient.Client) error {
		var rows [][]string
		var last domain.ParkedPage
		listed := 0
		err := parkedPages(a, m, c.Reason, func(page domain.ParkedPage) (bool, error) {
			last = page
			for _, s := range page.Data {
				if c.Limit > 0 && listed == c.Limit {
					return false, nil
				}
				listed++
				if a.JSON {
					if err := a.PrintJSON(s); err != nil {
						return false, err
					}
					continue
				}
				rows = append(rows, []string{
					strconv.FormatUint(s.ID, 10), s.ParkedAt.String(), s.Reason, strings.TrimPrefix(s.Subject, "payledger.v1.signals."),
					strconv.Itoa(s.Bytes), s.Detail,
				})
			}
			return c.Limit == 0 || listed < c.Limit, nil
		})
		if err != nil || a.JSON {
			return err
		}
		if err := a.PrintTable("No parked signals.", []string{"ID", "PARKED", "REASON", "ROUTE.PROJECT.PAYMENT", "BYTES", "DETAIL"}, rows); err != nil {
			return err
		}
		if listed == 0 {
			return nil
		}
		_, err = fmt.Fprintf(a.Stdout, "%d of %d parked; they take %d of %d bytes.\n", listed, last.Signals, last.Bytes, last.LimitBytes)
		return err
	})
}

// ids calls fn for each signal that the arguments select. Signals parked in the
// meantime are left out.
func (c parkedSignals) ids(a *console.App, m *adminclient.Client, fn func(id uint64) error) error {
	if !c.All {
		for _, id := range c.ID {
			if err := fn(id); err != nil {
				return err
			}
		}
		return nil
	}
	var last uint64
	return parkedPages(a, m, c.Reason, func(page domain.ParkedPage) (bool, error) {
		if last == 0 {
			last = page.Last
		}
		for _, s := range page.Data {
			if s.ID > last {
				return false, nil
			}
			if err := fn(s.ID); err != nil {
				return false, err
			}
		}
		return page.Next <= last, nil
	})
}

// retried is the result of a signal that was sent again.
type retried struct {
	ID uint64 `json:"id"`
	domain.SignalReply
}

// Run has the signals judged again and prints each result.
func (c parkedRetryCmd) Run(a *console.App) error {
	return onServer(a, c.Directory, func(m *adminclient.Client) error {
		still := 0
		err := c.ids(a, m, func(id uint64) error {
			r := retried{ID: id}
			err := m.Call(a.Ctx, http.MethodPost, fmt.Sprintf("%s/%d/retry", parkedPath, id), nil, &r.SignalReply)
			if c.All && adminclient.RefusedFor(err, domain.ParkedSignalNotFound) {
				return nil // it has given way since
			}
			if err != nil {
				return err
			}
			if r.Result == domain.SignalParked {
				still++
			}
			if a.JSON {
				return a.PrintJSON(r)
			}
			_, err = fmt.Fprintln(a.Stdout, strings.TrimSpace(fmt.Sprintf("%d: %s %s", id, r.Result, r.Reason)))
			return err
		})
		if err == nil && still > 0 {
			err = exit.With(exit.Refused, "%d could not be judged this time either and are parked: see \"payledger signals parked\"", still)
		}
		return err
	})
}

// Run drops the signals.
func (c parkedDiscardCmd) Run(a *console.App) error {
	return onServer(a, c.Directory, func(m *adminclient.Client) error {
		n, err := c.discard(a, m)
		if err != nil {
			return err
		}
		return a.Print(map[string]uint64{"discarded": n}, "%d discarded.\n", n)
	})
}

func (c parkedDiscardCmd) discard(a *console.App, m *adminclient.Client) (n uint64, err error) {
	if c.All && c.Reason == "" {
		var page domain.ParkedPage
		if err := m.Call(a.Ctx, http.MethodGet, parkedPath+"?limit=1", nil, &page); err != nil {
			return 0, err
		}
		var done struct {
			Discarded uint64 `json:"discarded"`
		}
		err := m.Call(a.Ctx, http.MethodPost, fmt.Sprintf("%s/discard?through=%d", parkedPath, page.Last), nil, &done)
		return done.Discarded, err
	}
	err = c.ids(a, m, func(id uint64) error {
		err := m.Call(a.Ctx, http.MethodPost, fmt.Sprintf("%s/%d/discard", parkedPath, id), nil, nil)
		if err == nil {
			n++
		}
		return err
	})
	return n, err
}
