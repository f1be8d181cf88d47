package admincmd

import (
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/cli"
)

// Audit lists who did what.
type Audit struct {
	Reads
	Project string `help:"Only acts for this project." placeholder:"PROJECT_ID" json:"project,omitzero"`
	After   uint64 `help:"Start after this position." json:"after"`
}

// Help is shown by --help.
func (Audit) Help() string {
	return `The oldest comes first. WHO is operator: and the name given with --as, or else the user
that ran the command; or the API key with which a merchant acted, through the API or the
account; or "retention", which erases what --details-retention-days of the project says.
No actor is named where the server acted by itself. Making a payment is no act, and
neither is what only asks or repeats and changes nothing that is recorded: "payments ask", and
"webhook test", "resend" and "recover", whose attempts the endpoint's deliveries list.
The log proves each line as it does every event: "payledger verify". With --json each line is
{"position":N,"event":…}, as "events tail" prints it.`
}

// Run prints the acts.
func (c Audit) Run(a *cli.App) error {
	return asking(a, c, "GET /admin/acts", func(m *cli.Client, r request) error {
		var rows [][]string
		names := make(map[string]*string) // of the keys so far, by their ids
		_, err := r.eachLine(a, m, func(position uint64, e eventText) error {
			if e.Kind == e.Project { // of the installation
				e.Project = "-"
			}
			var key struct { // of a key all but its hash
				Name   *string  `json:"name,omitzero"`
				ID     string   `json:"key_id"`
				Scopes []string `json:"scopes,omitempty"`
			}
			details := []byte(e.Data)
			err := json.Unmarshal(e.Data, &key)
			if err == nil && key.ID != "" {
				if key.Name == nil {
					key.Name = names[key.ID]
				}
				names[key.ID] = key.Name
				details, err = json.Marshal(key)
			}
			if err != nil {
				return fmt.Errorf("an act that cannot be read: %w", err)
			}
			rows = append(rows, texts(position, e.At, cmp.Or(e.Actor, "-"), e.Type, e.Project, string(details)))
			return nil
		})
		if err != nil || a.JSON {
			return err
		}
		return a.PrintTable("No acts.", []string{"POSITION", "TIME", "WHO", "ACT", "PROJECT", "DETAILS"}, rows)
	})
}
