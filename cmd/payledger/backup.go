package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// backupCmd copies the event log.
type backupCmd struct {
	admincmd.Directory
	File     string `arg:"" help:"File to write."`
	Force    bool   `help:"Replace FILE if it is there."`
	WithKeys bool   `help:"Also write FILE.keys, a copy of the directory's keys and NATS users. Anyone who has it can read payment links, sign checkpoints and sign webhooks: keep it apart from FILE."`
}

// Help is shown by --help.
func (backupCmd) Help() string {
	return `The copy is the whole event log at one moment, also while a server runs; it holds
everything that was answered before the command began. It is checked after it was written:
every record, every index and every event. FILE appears only when all of that is done.

A log alone is not enough: without master.key payment links cannot be read and the secrets
of webhook endpoints are lost, and without log.key the log's checkpoints cannot be signed by
the same key. Keep copies of both. --with-keys copies them, and two files that are in no log:
nats-credentials.json (passwords of --nats-listen) and nats-consumers.json (how far NATS
consumers got). Everything else in the data directory is rebuilt from the log. What was sent to
webhook endpoints after the backup is not known to it: see "payledger restore --help".

To go back: "payledger restore FILE --data DIR".`
}

// backupReport is what the command prints.
type backupReport struct {
	File     string              `json:"file"`
	Log      domain.ID           `json:"log"`
	Position eventstore.Position `json:"position"`
	Events   eventstore.Position `json:"events"`
	Bytes    int64               `json:"bytes"`
	KeysFile string              `json:"keys_file,omitempty"`
}

// Run writes the backup.
func (c backupCmd) Run(a *cli.App) (err error) {
	if c.File == "-" {
		return cli.Errorf(cli.ExitUsage, "a backup is read again once it was written, so standard output will not do: name a file")
	}
	written := []string{c.File}
	if c.WithKeys {
		written = append(written, datadir.KeysFileOf(c.File))
	}
	for _, name := range written {
		for _, own := range datadir.Dir(c.Data).Files() {
			if datadir.SameFile(name, own) {
				return cli.Errorf(cli.ExitUsage, "%s belongs to the data directory itself: choose another name", name)
			}
		}
		if _, err := os.Lstat(name); err == nil && !c.Force {
			return datadir.ErrExists(name)
		}
	}
	report := backupReport{File: c.File}
	var keys []byte
	if c.WithKeys {
		// Before the copy: so every key that a copied payment needs is in it.
		if keys, err = datadir.Dir(c.Data).PackKeys(); err != nil {
			return err
		}
		report.KeysFile = datadir.KeysFileOf(c.File)
	}
	work, err := datadir.NewScratch(filepath.Dir(c.File))
	if err != nil {
		return fmt.Errorf("making the backup: %w", err)
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	tmp, err := datadir.CreatePrivate(work.File("ledger.db"))
	if err != nil {
		return fmt.Errorf("making the backup: %w", err)
	}
	defer func() { err = errors.Join(err, tmp.Close()) }()
	err = c.copyLog(a, func(last eventstore.Position, size int64) (io.Writer, error) {
		report.Position, report.Events, report.Bytes = last, last, size
		return cli.CopyProgress(tmp, a.Stderr, last, size), nil
	})
	if err == nil {
		err = tmp.Sync()
	}
	if err != nil {
		return fmt.Errorf("copying the log: %w", err)
	}
	log, last, err := datadir.VerifyFile(a.Ctx, tmp.Name(), cli.Progress(a.Stderr, "Checking the copy"), nil)
	switch {
	case err != nil:
		return fmt.Errorf("the copy is not what the log should be, and was removed: %w", err)
	case last != report.Position:
		return fmt.Errorf("the copy ends at position %d instead of %d, and was removed: try again", last, report.Position)
	}
	report.Log = log
	if keys != nil {
		packed := work.File("ledger.db.keys")
		err := datadir.WriteFileSynced(packed, keys)
		if err == nil {
			err = datadir.MoveInto(packed, report.KeysFile, c.Force)
		}
		if err != nil {
			return err
		}
	}
	if err := datadir.MoveInto(tmp.Name(), c.File, c.Force); err != nil {
		return err
	}
	return c.tell(a, report)
}

// copyLog copies the log from the server that runs on the directory, or else
// from the directory itself. It needs only the log, so it works where a server
// cannot start.
func (c backupCmd) copyLog(a *cli.App, begin func(eventstore.Position, int64) (io.Writer, error)) error {
	d := datadir.Dir(c.Data)
	var store *bolt.Store
	live, err := d.Reach(a.Ctx, func() (err error) {
		store, err = d.OpenReadOnly()
		return err
	})
	switch {
	case err != nil:
		return err
	case !live:
		return errors.Join(store.Backup(a.Ctx, begin), store.Close())
	}
	resp, err := cli.ClientOf(d.DialSocket, a.As).Send(a.Ctx, http.MethodGet, "/admin/backup", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	last, err := strconv.ParseUint(resp.Header.Get("Payledger-Position"), 10, 64)
	if err != nil || resp.ContentLength < 0 {
		return errors.New("the server's answer is not a copy of the log")
	}
	w, err := begin(eventstore.Position(last), resp.ContentLength)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("the server's copy broke off: %w", err)
	}
	return nil
}

func (c backupCmd) tell(a *cli.App, r backupReport) error {
	if a.JSON {
		return a.PrintJSON(r)
	}
	fmt.Fprintf(a.Stdout, "Backup    %s\nLog       %s\nPosition  %d\nEvents    %d\nSize      %d bytes\n",
		r.File, r.Log, r.Position, r.Events, r.Bytes)
	if r.KeysFile != "" {
		fmt.Fprintf(a.Stdout, "Keys      %s\n\nKeep the keys apart from the log: anyone who has both can read and sign everything.\n", r.KeysFile)
		return nil
	}
	fmt.Fprintf(a.Stdout, "\nThe keys are not in it. Keep copies of %s too: without master.key payment links cannot\n"+
		"be read, without log.key checkpoints cannot be signed. --with-keys copies them next to the backup.\n", datadir.Dir(c.Data).KeyNames())
	return nil
}
