package admincmd

import (
	"errors"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/service"
)

// Directory is the flag of commands that work on a data directory, whether
// a server runs on it or not.
type Directory struct {
	Data string `help:"Data directory." required:"" placeholder:"DIR" json:"-"`
}

// Validate refuses the name that an unset variable of a shell leaves, which
// would otherwise be the working directory.
func (c Directory) Validate() error {
	if c.Data == "" {
		return errors.New("missing flags: --data=DIR, which may not be empty")
	}
	return nil
}

// Running is the client of the server that runs on the directory, nil when none
// does. The directory is not opened.
func (c Directory) Running(a *cli.App) (*cli.Client, error) {
	d := datadir.Dir(c.Data)
	if err := d.MustExist(); err != nil {
		return nil, err
	}
	conn, err := d.DialSocket(a.Ctx)
	if err != nil {
		return nil, a.Ctx.Err()
	}
	m := cli.ClientOf(d.DialSocket)
	m.As = a.As
	return m, conn.Close()
}

// Reading is Holding, for what only reads: it works on a directory that cannot be
// written to.
func (c Directory) Reading(a *cli.App, fn func(*cli.Client) error) error {
	return c.Holding(a, service.CoreOptions{Reading: true}, fn)
}

// Holding runs fn with the admin interface. o says how to hold the directory if no server
// does.
func (c Directory) Holding(a *cli.App, o service.CoreOptions, fn func(*cli.Client) error) (err error) {
	m, err := service.Connect(a.Ctx, datadir.Dir(c.Data), o, a.Stderr)
	if err != nil {
		return err
	}
	m.As = a.As
	defer func() {
		if closeErr := m.Close(); err == nil {
			err = closeErr
		}
	}()
	return fn(m)
}
