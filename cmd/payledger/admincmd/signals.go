package admincmd

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"payledger/cmd/payledger/cli"
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
	Served
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
		Served
		Reason string `help:"Only those of this reason: malformed, unknown_payment, unreadable." placeholder:"REASON"`
		Paged
	}
	parkedRetryCmd   struct{ parkedSignals }
	parkedDiscardCmd struct{ parkedSignals }
)

const parkedPath = "/admin/signals/parked"

// eachParked calls fn for the parked signals, oldest first, with their page, until fn returns
// false.
func eachParked(a *cli.App, m *cli.Client, reason string, fn func(s domain.ParkedSignal, all domain.ParkedPage) (more bool, err error)) error {
	for after := uint64(0); ; {
		q := url.Values{"after": {strconv.FormatUint(after, 10)}, "limit": {strconv.Itoa(pageSize)}}
		if reason != "" {
			q.Set("reason", reason)
		}
		var page domain.ParkedPage
		if err := m.Call(a.Ctx, http.MethodGet, parkedPath+"?"+q.Encode(), nil, &page); err != nil {
			return err
		}
		for _, s := range page.Data {
			if more, err := fn(s, page); err != nil || !more {
				return err
			}
		}
		if after = page.Next; after == 0 {
			return nil
		}
	}
}

// Run lists the parked signals.
func (c parkedCmd) Run(a *cli.App) error {
	return c.open(a, func(m *cli.Client) error {
		var rows [][]string
		var of domain.ParkedPage
		listed := 0
		err := eachParked(a, m, c.Reason, func(s domain.ParkedSignal, all domain.ParkedPage) (bool, error) {
			of = all
			listed++
			if a.JSON {
				return listed != c.Limit, a.PrintJSON(s)
			}
			rows = append(rows, texts(s.ID, s.ParkedAt, s.Reason, strings.TrimPrefix(s.Subject, "payledger.v1.signals."), s.Bytes, s.Detail))
			return listed != c.Limit, nil
		})
		if err != nil || a.JSON {
			return err
		}
		err = a.PrintTable("No parked signals.", []string{"ID", "PARKED", "REASON", "ROUTE.PROJECT.PAYMENT", "BYTES", "DETAIL"}, rows)
		if err != nil || listed == 0 {
			return err
		}
		return a.Print(nil, "%d of %d parked; they take %d of %d bytes.\n", listed, of.Signals, of.Bytes, of.LimitBytes)
	})
}

// ids are the signals that the arguments select, without those parked in the meantime.
func (c parkedSignals) ids(a *cli.App, m *cli.Client) (ids []uint64, err error) {
	if !c.All {
		return c.ID, nil
	}
	var last uint64
	err = eachParked(a, m, c.Reason, func(s domain.ParkedSignal, all domain.ParkedPage) (bool, error) {
		if last = cmp.Or(last, all.Last); s.ID <= last {
			ids = append(ids, s.ID)
		}
		return s.ID < last, nil
	})
	return ids, err
}

// each calls do for the signals that the arguments select, and counts them. Of --all, those that have
// gone meanwhile are passed over.
func (c parkedSignals) each(a *cli.App, m *cli.Client, do func(id uint64) error) (done uint64, err error) {
	ids, err := c.ids(a, m)
	for _, id := range ids {
		switch err := do(id); {
		case err == nil:
			done++
		case !c.All || !cli.RefusedFor(err, domain.ParkedSignalNotFound):
			return done, err
		}
	}
	return done, err
}

// retried is the result of a signal that was sent again.
type retried struct {
	ID uint64 `json:"id"`
	domain.SignalReply
}

// Run has the signals judged again and prints each result.
func (c parkedRetryCmd) Run(a *cli.App) error {
	return c.open(a, func(m *cli.Client) error {
		still := 0
		_, err := c.each(a, m, func(id uint64) error {
			r := retried{ID: id}
			if err := m.Call(a.Ctx, http.MethodPost, fmt.Sprintf("%s/%d/retry", parkedPath, id), nil, &r.SignalReply); err != nil {
				return err
			}
			if r.Result == domain.SignalParked {
				still++
			}
			return a.Print(r, "%s\n", strings.TrimSpace(fmt.Sprintf("%d: %s %s", id, r.Result, r.Reason)))
		})
		if err != nil {
			return err
		}
		if still > 0 {
			return cli.Errorf(cli.ExitRefused, "%d could not be judged this time either and are parked: see \"payledger signals parked\"", still)
		}
		return nil
	})
}

// Run drops the signals.
func (c parkedDiscardCmd) Run(a *cli.App) error {
	return c.open(a, func(m *cli.Client) error {
		var done struct {
			Discarded uint64 `json:"discarded"`
		}
		var err error
		if c.All && c.Reason == "" {
			var page domain.ParkedPage
			if err = m.Call(a.Ctx, http.MethodGet, parkedPath+"?limit=1", nil, &page); err == nil {
				err = m.Call(a.Ctx, http.MethodPost, fmt.Sprintf("%s/discard?through=%d", parkedPath, page.Last), nil, &done)
			}
		} else {
			done.Discarded, err = c.each(a, m, func(id uint64) error {
				return m.Call(a.Ctx, http.MethodPost, fmt.Sprintf("%s/%d/discard", parkedPath, id), nil, nil)
			})
		}
		if err != nil {
			return err
		}
		return a.Print(done, "%d discarded.\n", done.Discarded)
	})
}
