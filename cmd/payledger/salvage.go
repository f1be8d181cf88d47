package main

import (
	"cmp"
	"errors"
	"io"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/process"
	"payledger/cmd/payledger/salvage"
)

// salvageCmd makes a new log of what is readable of a damaged one and its
// copies.
type salvageCmd struct {
	Source []string `arg:"" optional:"" help:"Data directory, ledger.db or backup (damaged or not), bundle, export in JSON Lines, or nats/ directory; as many as there are."`
	cli.NATSURLFlags
	Output      string   `help:"File for the new log; \"payledger restore\" takes it." short:"o" required:"" placeholder:"FILE"`
	Checkpoint  []string `help:"Signed checkpoint to prove the log with; may be given more than once. Those of directories and bundles need not be named." placeholder:"FILE"`
	VerifierKey []string `help:"Verifier key of the checkpoints, or a file that holds it; may be given more than once. Default: that of the directories, or of the bundles." placeholder:"KEY|FILE" sep:"none"`
	Partial     bool     `help:"Write the log although events are missing: up to the first gap; readable events behind it go to FILE.rest.jsonl."`
	Unproved    bool     `help:"Take events that nothing proves too."`
	Force       bool     `help:"Replace FILE if it is there."`
}

// Help is shown by --help.
func (salvageCmd) Help() string {
	return `For a log that no backup replaces. Every copy is read as far as it goes: a ledger.db byte by
byte, each record judged by its own checksum, whatever has become of the file's structure;
EVENTS, which is a copy of the log; exports and backups of any age. Position by position the
copies complete each other. Where they differ, the one with which the newest checkpoint comes
out right is taken; where no checkpoint tells, the position is refused. The new log is proved
like "payledger verify" does, and what is missing is named: positions, and the payments of
which later events are there.

  payledger salvage DIR --output saved.db                    a stopped data directory with its nats/
  payledger salvage DIR backup.db export.jsonl -o saved.db   and older copies
  payledger salvage DIR --nats-url nats://HOST:4222 -o saved.db
  payledger restore saved.db --data DIR --force              then put it in place

The sources are opened for reading only, and JetStream runs on a copy of its files beside the
output, which takes as much room as they do; the source never changes.

Proved is what a signed checkpoint covers. Behind it counts a record on a page that the
ledger.db uses, an event in EVENTS, and what two exports say alike. All else, such as a line of
one export or a record in a part of the file that is out of use, needs --unproved: it may have
been altered, or never acknowledged.

Exit codes: 0 the log is whole and proved; 7 events are missing, or not proved: without
--partial or --unproved nothing was written, with them the message says what is not there; 3
nothing of a log can be read; 4 a source is in use.`
}

// Validate refuses a call without sources.
func (c salvageCmd) Validate() error {
	if len(c.Source) == 0 && c.NATSURL == "" {
		return errors.New("name what is left of the log: a data directory, files, --nats-url")
	}
	if c.Output == "-" {
		return errors.New("--output: the new log is read again once it was written, so standard output will not do: name a file")
	}
	return nil
}

// Run makes the log.
func (c salvageCmd) Run(a *cli.App) error {
	defer process.RoomyHeap()() //nolint:errcheck // it answers none
	external, err := c.External(zerolog.New(a.Stderr))
	if err != nil {
		return err
	}
	r, err := salvage.Run(a.Ctx, salvage.Options{
		Sources: c.Source, NATS: external, Output: c.Output, Checkpoints: c.Checkpoint, VerifierKeys: c.VerifierKey,
		Partial: c.Partial, Unproved: c.Unproved, Force: c.Force, Stderr: a.Stderr,
	})
	if err != nil {
		return err
	}
	write := r.WriteText
	if a.JSON {
		write = func(io.Writer) error { return a.PrintJSON(r) }
	}
	if err := write(a.Stdout); err != nil {
		return err
	}
	wrote := cmp.Or(r.Written, "nothing") + " was written"
	switch {
	case r.Whole:
		return nil
	case r.Found == 0:
		return cli.Errorf(cli.ExitDirectory, "nothing of a log can be read in these sources: %s", wrote)
	case r.Partial() && r.Written == "":
		return cli.Errorf(cli.ExitVerify, "the log is not whole: %s. --partial writes what is there before position %d, and the rest into a file of its own; "+
			"--unproved takes what is called unproved or contradicted", wrote, r.Events+1)
	case r.Partial():
		return cli.Errorf(cli.ExitVerify, "the log is not whole: %s, up to position %d", wrote, r.Events)
	case r.Written == "":
		return cli.Errorf(cli.ExitVerify, "the log is not proved: %s. Give a checkpoint with --checkpoint, or take it as it is with --unproved", wrote)
	}
	return cli.Errorf(cli.ExitVerify, "the log is not proved: %s all the same", wrote)
}
