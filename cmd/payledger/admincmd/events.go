package admincmd

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
)

// Events groups the commands that read the log.
type Events struct {
	Tail eventsTailCmd `cmd:"" help:"Print events, oldest first."`
}

type eventsTailCmd struct {
	Reads
	After   uint64 `help:"Start after this position." json:"after"`
	Project string `help:"Only events of this project." placeholder:"PROJECT_ID" json:"project,omitzero"`
	Payment string `help:"Only events of this payment." placeholder:"PAYMENT_ID" json:"payment,omitzero"`
	Details bool   `name:"with-details" help:"With --json, print the details of payments that were not erased, too." json:"details,omitzero"`
	Follow  bool   `help:"Continue with new events as they are recorded." short:"f" json:"follow,omitzero"`
}

// Help is shown by --help.
func (eventsTailCmd) Help() string {
	return `With --json each line is {"position":N,"event":…} with the event's bytes exactly as
they are stored. Description and payload of a payment are not in them: --with-details adds
"details" and their "salt" to the lines of payment.created, which commits to them.`
}

// Run prints the events.
func (c eventsTailCmd) Run(a *cli.App) error {
	return asking(a, c, "GET /admin/events", func(m *cli.Client, r request) error {
		if c.Follow && !m.Live {
			return fmt.Errorf("no server runs on %s, so no new events can come: leave --follow out", c.Name())
		}
		behind, err := r.eachLine(a, m, func(position uint64, e eventText) error {
			return a.Print(nil, "%8d  %s  %-22s %s #%d  %s\n", position, e.At, e.Type, e.Stream, e.Sequence, e.Data)
		})
		switch {
		case err == nil || errors.Is(err, a.Ctx.Err()):
		case behind > 0:
			return fmt.Errorf("after position %d: %w", behind, err)
		default:
			return err
		}
		if behind == 0 && !a.JSON && !c.Follow {
			return a.Note("No events.")
		}
		return nil
	})
}

// eventText is an event as it is printed.
type eventText struct {
	Type     string         `json:"type"`
	Project  string         `json:"project"`
	Kind     string         `json:"kind"`
	Stream   string         `json:"stream"`
	Sequence uint64         `json:"sequence"`
	At       string         `json:"at"`
	Actor    string         `json:"actor"`
	Data     jsontext.Value `json:"data"`
}

// eachLine prints the events that the server streams as they are with --json, or else
// calls fn for them. last is the position of the last one, 0 if there was none.
func (r request) eachLine(a *cli.App, m *cli.Client, fn func(position uint64, e eventText) error) (last uint64, err error) {
	resp, err := m.Send(a.Ctx, r.method, r.url(), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Position uint64         `json:"position"`
			Event    eventText      `json:"event"`
			Leaf     jsontext.Value `json:"leaf"`
		}
		err := json.Unmarshal(lines.Bytes(), &e)
		switch {
		case err != nil:
			err = fmt.Errorf("an event that cannot be read: %w", err)
		case a.JSON:
			_, err = fmt.Fprintf(a.Stdout, "%s\n", lines.Bytes())
		case e.Leaf != nil: // of a bundle of another project
		default:
			err = fn(e.Position, e.Event)
		}
		if err != nil {
			return last, err
		}
		last = e.Position
	}
	if err := lines.Err(); err != nil {
		return last, fmt.Errorf("the server ended the list: look for the reason with \"payledger verify\": %w", err)
	}
	return last, nil
}
