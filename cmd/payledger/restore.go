package main

import (
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/cmd/payledger/restore"
)

// restoreCmd puts a backup, what was exported, or what several sources have
// together, in the place of a directory's event log.
type restoreCmd struct {
	admincmd.Directory
	restore.Options
}

// Help is shown by --help.
func (restoreCmd) Help() string {
	return `FILE is a backup, a bundle ("export --format bundle") or a whole export in JSON Lines.
It is copied into the directory and read from end to end; only when all of it is proved it
takes the place of ledger.db. The directory may be missing or
empty; then the keys have to come too: put master.key (and log.key) there yourself, or restore
them from the file that "backup --with-keys" wrote. That file also brings back the users and
consumers of NATS; those that the directory has already stay as they are.

An export has no checksums: a signed checkpoint has to prove it, the bundle's own, the one in
the directory or one given with --checkpoint. A log in an older format is taken over this way:

  old-payledger export --format bundle --output LOG.tar --data DIR
  payledger restore LOG.tar --data DIR --force

When ledger.db is damaged or lost, --then completes a backup with what came after it, position
by position, from the sources that have it: EVENTS, which is a copy of the log, exports and bundles, the
damaged file itself. That is read byte by byte, each record judged by its own checksum.

  payledger restore monday.db --then EVENTS --then DIR/ledger.db --data DIR
  payledger restore DIR/ledger.db --then EVENTS --data DIR       without a backup
  payledger restore monday.db --then tuesday.jsonl --data DIR    "export --after" will do
  payledger restore EVENTS --data DIR                            where nothing else is left

Where two sources differ, nothing is taken before one of them is left out; sources are opened
for reading only. The newest checkpoint has to prove the result, or the record's own checksum
what is after it; a line of an export there needs --force. What no source has is named:
positions, and the payments of which later events are there. --until takes the events before
it, and keeps the others as an export, ledger.db.replaced-TIME.rest.jsonl.

It refuses to lose an event: the directory's log has more events than FILE, or
other ones; or what payments were for, which EVENTS does not have, and an export only if it
was made --with-details. With --force it is moved aside, never deleted. No server may run on the
directory. Projections and the embedded JetStream need no care: the next start compares them
with the log and recreates them where they differ. So give EVENTS before that.

What was erased after the backup stays erased, as far as the directory's log and EVENTS tell: those
payments come back without their descriptions and payloads.

What was sent to webhook endpoints after the backup is not known. Of what FILE says is still to
be sent, each endpoint is sent the newest event of every payment. Receivers ignore it if they
have seen its sequence.

Exit codes: 3 events are missing, damaged or altered, or a file cannot be read; 4 a file is in
use; 5 an event or a payment's details would be lost, or nothing proves it. Then nothing was changed.`
}

// Run restores the file.
func (c restoreCmd) Run(a *cli.App) error {
	defer process.RoomyHeap()() //nolint:errcheck // it answers none
	var err error
	if c.Actor, err = a.Actor(); err != nil {
		return err
	}
	if c.Bus, err = c.External(zerolog.New(a.Stderr)); err != nil {
		return err
	}
	c.Stderr = a.Stderr
	done, err := restore.Run(a.Ctx, datadir.Dir(c.Data), c.Options)
	if err != nil {
		if a.JSON && len(done.Findings) > 0 {
			return errors.Join(err, a.PrintJSON(done))
		}
		return err
	}
	if a.JSON {
		return a.PrintJSON(done)
	}
	fmt.Fprintf(a.Stdout, "Restored  %s\nLog       %s\nPosition  %d\nEvents    %d\n", done.Data, done.Log, done.Position, done.Events)
	if len(done.Sources) > 0 {
		fmt.Fprintf(a.Stdout, "Proved    up to position %d\n", done.Proved)
	}
	for _, s := range done.Sources {
		fmt.Fprintf(a.Stdout, "Source    %s: %s\n", s.Name, cli.Count(s.Events, "event"))
	}
	if done.Erased > 0 {
		fmt.Fprintf(a.Stdout, "Erased    the details of %s, which were erased after position %d\n", cli.Count(done.Erased, "payment"), done.Position)
	}
	for _, name := range done.Kept {
		fmt.Fprintf(a.Stdout, "Kept      %s\n", name)
	}
	if logKey := datadir.Dir(c.Data).LogKey(); !datadir.Exists(logKey) {
		fmt.Fprintf(a.Stdout, "\n%s is missing: put the copy you kept there.\n", logKey)
	}
	_, err = fmt.Fprintf(a.Stdout, "\nNext, with the routes that it had: payledger serve --data %s --routes FILE\n", c.Data)
	return err
}
