package main

import (
	"errors"
	"fmt"
	"strings"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/export"
)

type exportCmd struct {
	admincmd.Source
	export.Options
}

// Help is shown by --help.
func (exportCmd) Help() string {
	return `Everything up to the last event there is when the command starts, whether the server
runs or not.

  jsonl    a line {"position":N,"event":…} for each event, with exactly the stored bytes;
           --with-details adds what payments are for, "details" and their "salt", which an
           event only commits to
  csv      a row for each posting (RFC 4180), with debit and credit, for spreadsheets
  hledger  a journal for hledger, a transaction for each event that moves money
  bundle   what an auditor needs, in a tar file: events.jsonl, journal.hledger, the signed
           checkpoint, verifier.key and manifest.json with the SHA-256 of each file. With
           --project, all events but those of the project and those that move its money are
           there as the hashes of their leaves only: the tree can be checked all the same

A file or bundle gets its name when all of it is written: an export that is interrupted
leaves none. What came later is exported with --after and the position that was printed.

With --json a last line on standard output says what was written to --output.`
}

// Validate refuses flags that do not go together.
func (c exportCmd) Validate() error {
	switch {
	case c.Format == "bundle" && !strings.HasSuffix(c.Output, ".tar"):
		return errors.New("--format bundle needs --output, a file named *.tar")
	case c.Details && c.Format != "jsonl" && c.Format != "bundle":
		return errors.New("--with-details is for --format jsonl and bundle")
	case c.Format == "bundle" && c.After > 0:
		return errors.New("--format bundle holds the whole log, as the checkpoint does: leave --after out")
	}
	return nil
}

// Run writes the export.
func (c exportCmd) Run(a *cli.App) error {
	return c.Reading(a, func(m *cli.Client) error {
		done, err := c.write(a, m)
		switch {
		case err != nil || done.Output == "":
			return err
		case a.JSON:
			return a.PrintJSON(done)
		}
		return a.Note(fmt.Sprintf("payledger: %s: %s read, up to position %d", done.Output, cli.Count(done.Events, "event"), done.Position))
	})
}

func (c exportCmd) write(a *cli.App, m *cli.Client) (done export.Done, err error) {
	if c.Format == "bundle" {
		key, project, err := export.BundleKey(a.Ctx, c.File, datadir.Dir(c.Data), c.Project)
		if err != nil {
			return done, err
		}
		c.Project = project
		return export.WriteBundle(a.Ctx, m, key, c.Options, a.Stderr)
	}
	c.Progress = cli.Progress(a.Stderr, "Exporting")
	x, err := export.New(a.Ctx, m, c.Options)
	if err != nil {
		return done, err
	}
	if c.Output == "" || c.Output == "-" {
		_, err = x.ToStream(a.Ctx, a.Stdout)
		return done, err
	}
	return x.ToFile(a.Ctx)
}
