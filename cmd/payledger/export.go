package main

import (
	"errors"
	"fmt"
	"strings"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/export"
	"payledger/eventstore"
)

type exportCmd struct {
	admincmd.Source
	Format  string              `help:"What to write: jsonl, csv, hledger or bundle." enum:"jsonl,csv,hledger,bundle" default:"jsonl"`
	Output  string              `help:"File to write; a bundle is a file named *.tar. Standard output without it, and for -." short:"o" placeholder:"FILE"`
	Project string              `help:"Only events of this project." placeholder:"PROJECT_ID"`
	After   eventstore.Position `help:"Start after this position." placeholder:"POSITION"`
	Details bool                `name:"with-details" help:"Write the details of payments that were not erased, too. Only in jsonl and a bundle."`
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

func (c exportCmd) toStdout() bool { return c.Output == "" || c.Output == "-" }

// Run writes the export.
func (c exportCmd) Run(a *cli.App) error {
	return c.Reading(a, func(m *cli.Client) error {
		if c.Format == "bundle" {
			key, err := c.verifierKey()
			if err != nil {
				return err
			}
			done, err := export.WriteBundle(a.Ctx, m, key, export.Options{Project: c.Project, Details: c.Details}, c.Output, a.Stderr)
			if err != nil {
				return err
			}
			return exported(a, c.Format, c.Output, done)
		}
		x, err := export.New(a.Ctx, m, export.Options{
			Format: c.Format, Project: c.Project, After: c.After, Details: c.Details, Progress: cli.Progress(a.Stderr, "Exporting"),
		})
		if err != nil {
			return err
		}
		if c.toStdout() {
			_, err := x.ToStream(a.Ctx, a.Stdout)
			return err
		}
		done, err := x.ToFile(a.Ctx, c.Output)
		if err != nil {
			return err
		}
		return exported(a, c.Format, c.Output, done)
	})
}

// verifierKey is the key that goes into a bundle.
func (c exportCmd) verifierKey() (string, error) {
	if c.File != "" {
		return export.FileKey(c.File)
	}
	return export.DirectoryKey(datadir.Dir(c.Data))
}

// exported says what has been written.
func exported(a *cli.App, format, name string, done export.Done) error {
	if a.JSON {
		return a.PrintJSON(struct {
			Format   string `json:"format"`
			Output   string `json:"output"`
			Events   uint64 `json:"events"`
			Position uint64 `json:"position"`
		}{format, name, done.Events, uint64(done.Position)})
	}
	_, err := fmt.Fprintf(a.Stderr, "payledger: %s: %s read, up to position %d\n", name, cli.Count(done.Events, "event"), done.Position)
	return err
}
