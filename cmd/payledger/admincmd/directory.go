package admincmd

import (
	"cmp"
	"errors"
	"fmt"

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

// Running is the client of the server that runs on the directory, nil when none does. The directory is
// not opened. A server that hangs is not waited for longer than one takes to answer.
func (c Directory) Running(a *cli.App) (*cli.Client, error) {
	d := datadir.Dir(c.Data)
	if err := d.MustExist(); err != nil {
		return nil, err
	}
	conn, err := d.DialSocket(a.Ctx)
	if err != nil {
		return nil, a.Ctx.Err()
	}
	m := cli.ClientOf(d.DialSocket, a.As)
	m.HTTP.Timeout = 3 * datadir.AdminWait
	return m, conn.Close()
}

// Serving runs fn with the server that runs on the directory or is about to. Where none does the
// directory is left alone, so that one can start; with is what to give it besides.
func (c Directory) Serving(a *cli.App, with string, fn func(*cli.Client) error) error {
	d := datadir.Dir(c.Data)
	live, err := d.Reach(a.Ctx, d.Unused)
	switch {
	case err != nil:
		return err
	case !live:
		return fmt.Errorf("no server runs on %[1]s: start one with \"payledger serve%[2]s --data %[1]s\"", c.Data, with)
	}
	return fn(cli.ClientOf(d.DialSocket, a.As))
}

// Holding runs fn with the admin interface. o says how to hold the directory if no server
// does.
func (c Directory) Holding(a *cli.App, o service.Options, fn func(*cli.Client) error) (err error) {
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

// Source is the flags of commands that only read: a data directory, or the log in a file.
type Source struct {
	Data string `help:"Data directory." placeholder:"DIR" json:"-"`
	File string `help:"In place of --data: an exported bundle, or a copy of a ledger.db such as a backup." placeholder:"FILE" json:"-"`
	Trust
}

// Trust is the flags that say what the log in a file is checked against.
type Trust struct {
	Checkpoint  []string `help:"Signed checkpoint that was kept elsewhere; may be given more than once." placeholder:"FILE" json:"-"`
	VerifierKey []string `help:"Verifier key of the checkpoints, or a file that holds it; may be given more than once. Default: that of the directory or bundle." placeholder:"KEY|FILE" sep:"none" json:"-"`
}

// Given reports whether there is anything to check against.
func (t Trust) Given() bool { return len(t.Checkpoint)+len(t.VerifierKey) > 0 }

// Anchors reads what the flags name.
func (t Trust) Anchors() (datadir.TrustAnchors, error) {
	return datadir.ReadTrustAnchors("--checkpoint", t.Checkpoint, t.VerifierKey)
}

// Name is what is read.
func (c Source) Name() string { return cmp.Or(c.File, c.Data) }

// Reading runs fn with the admin interface of the server that runs on the directory, or of the
// directory itself, which need not be writable, or of the file.
func (c Source) Reading(a *cli.App, fn func(*cli.Client) error) error { return c.read(a, false, fn) }

func (c Source) read(a *cli.App, booksOnly bool, fn func(*cli.Client) error) error {
	switch {
	case c.Name() == "":
		return cli.Errorf(cli.ExitUsage, "missing flags: --data=DIR, which may not be empty, or --file=FILE")
	case c.File == "" && c.Given():
		return cli.Errorf(cli.ExitUsage, "--checkpoint and --verifier-key are for --file: \"payledger verify\" compares a directory with them")
	case c.File == "":
		return Directory{c.Data}.Holding(a, service.Options{Reading: true}, fn)
	}
	given, err := c.Anchors()
	if err != nil {
		return err
	}
	m, err := service.ReadFile(a.Ctx, c.File, given, booksOnly, a.Stderr)
	if err != nil {
		return err
	}
	defer m.Close() //nolint:errcheck // temporary
	return fn(m)
}
