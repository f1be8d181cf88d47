package admincmd

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
)

// Audit lists who did what.
type Audit struct {
	console.Directory
	Project string `help:"Only acts for this project." placeholder:"PROJECT_ID"`
	After   uint64 `help:"Start behind this position."`
}

// Help is shown by --help.
func (Audit) Help() string {
	return `The oldest comes first. WHO is operator: and the name given with --as, or else the user
that ran the command; or the API key with which a merchant acted, through the API or the
account. Nobody is named where the server acted by itself. Making a payment is no act, and
neither is what only asks or repeats and changes nothing that is recorded: "payments ask", and
"webhook test", "resend" and "recover", whose attempts the endpoint's deliveries list.
The log proves each line as it does every event: "payledger verify". With --json each line is
{"position":N,"event":…}, as "events tail" prints it.`
}

// Run prints the acts.
func (c Audit) Run(a *console.App) error {
	return c.Reading(a, func(m *adminclient.Client) error {
		q := url.Values{"after": {strconv.FormatUint(c.After, 10)}}
		setUnlessEmpty(q, "project", c.Project)
		var rows [][]string
		names := make(map[string]*string)
		err := eachLine(a.Ctx, m, "/admin/acts?"+q.Encode(), func(line []byte) error {
			if a.JSON {
				_, err := fmt.Fprintf(a.Stdout, "%s\n", line)
				return err
			}
			row, err := act(line, names)
			rows = append(rows, row)
			return err
		})
		if err != nil || a.JSON {
			return err
		}
		return a.PrintTable("No acts.", []string{"POSITION", "TIME", "WHO", "ACT", "PROJECT", "DETAILS"}, rows)
	})
}

// act is the row of a line. names are those of the keys in the lines before, by
// their ids.
func act(line []byte, names map[string]*string) ([]string, error) {
	var e struct {
		Position uint64 `json:"position"`
		Event    struct {
			Type    string         `json:"type"`
			Project string         `json:"project"`
			Kind    string         `json:"kind"`
			At      string         `json:"at"`
			Actor   string         `json:"actor"`
			Data    jsontext.Value `json:"data"`
		} `json:"event"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, fmt.Errorf("an act that cannot be read: %w", err)
	}
	if e.Event.Kind == e.Event.Project { // of the installation
		e.Event.Project = "-"
	}
	details, err := detailsOf(e.Event.Data, names)
	if err != nil {
		return nil, fmt.Errorf("an act that cannot be read: %w", err)
	}
	return []string{strconv.FormatUint(e.Position, 10), e.Event.At, cmp.Or(e.Event.Actor, "-"), e.Event.Type, e.Event.Project, details}, nil
}

// detailsOf is an event's data; of a key its name, where it has one, its id and what
// it may do, and not its hash.
func detailsOf(data jsontext.Value, names map[string]*string) (string, error) {
	var key struct {
		Name   *string  `json:"name,omitzero"`
		ID     string   `json:"key_id"`
		Scopes []string `json:"scopes,omitempty"`
	}
	if err := json.Unmarshal(data, &key); err != nil {
		return "", err
	}
	if key.ID == "" {
		return string(data), nil
	}
	if key.Name == nil {
		key.Name = names[key.ID]
	}
	names[key.ID] = key.Name
	details, err := json.Marshal(key)
	return string(details), err
}
