package main

import (
	"errors"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/service"
)

// inDirectory is the flag of commands that work on a data directory, whether
// a server runs on it or not.
type inDirectory struct {
	Data string `help:"Data directory." required:"" placeholder:"DIR"`
}

// Validate refuses the name that an unset variable of a shell leaves, which
// would otherwise be the working directory.
func (c inDirectory) Validate() error {
	if c.Data == "" {
		return errors.New("missing flags: --data=DIR, which may not be empty")
	}
	return nil
}

// with runs fn with the admin interface.
func (c inDirectory) with(a *app, fn func(*adminclient.Client) error) error {
	return c.holding(a, service.CoreOptions{}, fn)
}

// reading is with, for what only reads: it works on a directory that cannot be
// written to.
func (c inDirectory) reading(a *app, fn func(*adminclient.Client) error) error {
	return c.holding(a, service.CoreOptions{Reading: true}, fn)
}

// holding is with, where o says how to hold the directory if no server does.
func (c inDirectory) holding(a *app, o service.CoreOptions, fn func(*adminclient.Client) error) (err error) {
	m, err := service.Connect(a.ctx, datadir.Dir(c.Data), o, a.stderr)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := m.Close(); err == nil {
			err = closeErr
		}
	}()
	return fn(m)
}
