package admincmd

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
)

// Events groups the commands that read the log.
type Events struct {
	Tail eventsTailCmd `cmd:"" help:"Print events, oldest first."`
}

type eventsTailCmd struct {
	console.Directory
	After   uint64 `help:"Start behind this position."`
	Project string `help:"Only events of this project." placeholder:"PROJECT_ID"`
	Payment string `help:"Only events of this payment." placeholder:"PAYMENT_ID"`
	Follow  bool   `help:"Go on with new events as they come." short:"f"`
}

// Help is shown by --help.
func (eventsTailCmd) Help() string {
	return `With --json each line is {"position":N,"event":…} with the event's bytes exactly as
they are stored.`
}

// Run prints the events.
func (c eventsTailCmd) Run(a *console.App) error {
	return c.Reading(a, func(m *adminclient.Client) error {
		if c.Follow && !m.Live {
			return fmt.Errorf("no server runs on %s, so no new events can come: leave --follow out", c.Data)
		}
		q := url.Values{"after": {strconv.FormatUint(c.After, 10)}}
		setUnlessEmpty(q, "project", c.Project)
		setUnlessEmpty(q, "payment", c.Payment)
		if c.Follow {
			q.Set("follow", "true")
		}
		behind, some := c.After, false
		err := eachLine(a.Ctx, m, "/admin/events?"+q.Encode(), func(line []byte) error {
			err := printEvent(a, line)
			if err == nil {
				behind, some = positionOf(line, behind), true
			}
			return err
		})
		switch {
		case err == nil || errors.Is(err, a.Ctx.Err()):
		case some:
			return fmt.Errorf("behind position %d: %w", behind, err)
		default:
			return err
		}
		if !some && !a.JSON && !c.Follow {
			return a.Note("No events.")
		}
		return nil
	})
}

// positionOf is the position a line begins with, or else the one before.
func positionOf(line []byte, before uint64) uint64 {
	number, _, _ := strings.Cut(strings.TrimPrefix(string(line[:min(len(line), 40)]), `{"position":`), ",")
	if n, err := strconv.ParseUint(number, 10, 64); err == nil {
		return n
	}
	return before
}

func printEvent(a *console.App, line []byte) error {
	if a.JSON {
		_, err := fmt.Fprintf(a.Stdout, "%s\n", line)
		return err
	}
	var e struct {
		Position uint64 `json:"position"`
		Event    struct {
			Type     string         `json:"type"`
			Project  string         `json:"project"`
			Stream   string         `json:"stream"`
			Sequence uint64         `json:"sequence"`
			At       string         `json:"at"`
			Data     jsontext.Value `json:"data"`
		} `json:"event"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("an event that cannot be read: %w", err)
	}
	_, err := fmt.Fprintf(a.Stdout, "%8d  %s  %-22s %s #%d  %s\n",
		e.Position, e.Event.At, e.Event.Type, e.Event.Stream, e.Event.Sequence, e.Event.Data)
	return err
}
