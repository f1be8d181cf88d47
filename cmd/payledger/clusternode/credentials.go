package clusternode

import (
	"errors"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/notifier/bus/embedded"
)

// Credentials reads the passwords of subscribers and connectors, which it
// makes the first time they are needed.
func Credentials(d datadir.Dir) (embedded.Credentials, error) {
	b, err := os.ReadFile(d.Credentials())
	if errors.Is(err, fs.ErrNotExist) {
		made := embedded.NewCredentials()
		content, err := json.Marshal(made)
		if err != nil {
			return made, err
		}
		return made, datadir.WriteFileSynced(d.Credentials(), append(content, '\n'))
	}
	if err != nil {
		return embedded.Credentials{}, cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	var c embedded.Credentials
	if err := json.Unmarshal(b, &c); err != nil {
		return c, cli.Errorf(cli.ExitDirectory, "%s cannot be read: %w; delete it to get new passwords at the next start", d.Credentials(), err)
	}
	if err := c.Validate(); err != nil {
		return c, cli.Errorf(cli.ExitDirectory, "%s: %w; delete it to get new passwords at the next start", d.Credentials(), err)
	}
	return c, nil
}
