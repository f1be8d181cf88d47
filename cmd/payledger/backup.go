package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// backupCmd copies the event log.
type backupCmd struct {
	inDirectory
	File     string `arg:"" help:"File to write."`
	Force    bool   `help:"Replace FILE if it is there."`
	WithKeys bool   `help:"Also write FILE.keys, a copy of the directory's keys. Whoever has it can read payment links, sign checkpoints and sign webhooks: keep it apart from FILE."`
}

// Help is shown by --help.
func (backupCmd) Help() string {
	return `The copy is the whole event log as it is at one moment, also while a server runs; what
was answered before the command began is in it. It is checked after it was written:
every record, every index and every event. FILE appears only when all of that is done.

A log alone is not enough: without master.key payment links cannot be read and the secrets
of webhook endpoints are lost, and without log.key the log's checkpoints cannot be signed by
the same key. Keep copies of both. Everything else in the data directory is made anew from
the log, but for what was sent to webhook endpoints: see "payledger restore --help".

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
func (c backupCmd) Run(a *app) (err error) {
	for _, name := range c.files() {
		for _, own := range dataDir(c.Data).files() {
			if same(name, own) {
				return exitWith(exitUsage, "%s belongs to the data directory itself: choose another name", name)
			}
		}
		if _, err := os.Lstat(name); err == nil && !c.Force {
			return errThere(name)
		}
	}
	report := backupReport{File: c.File}
	var keys []byte
	if c.WithKeys {
		// Before the copy: what a payment was made with is there then.
		if keys, err = dataDir(c.Data).packKeys(); err != nil {
			return err
		}
		report.KeysFile = keysOf(c.File)
	}
	work, err := newScratch(filepath.Dir(c.File))
	if err != nil {
		return fmt.Errorf("making the backup: %w", err)
	}
	defer func() { err = errors.Join(err, work.remove()) }()
	tmp, err := createPrivate(work.file("ledger.db"))
	if err != nil {
		return fmt.Errorf("making the backup: %w", err)
	}
	defer func() { err = errors.Join(err, tmp.Close()) }()
	err = c.copyLog(a, func(last eventstore.Position, size int64) (io.Writer, error) {
		report.Position, report.Events, report.Bytes = last, last, size
		return copying(tmp, a.stderr, last, size), nil
	})
	if err == nil {
		err = tmp.Sync()
	}
	if err != nil {
		return fmt.Errorf("copying the log: %w", err)
	}
	p, err := prove(a, tmp.Name(), nil)
	switch {
	case err != nil:
		return fmt.Errorf("the copy is not what the log should be, and was removed: %w", err)
	case p.last != report.Position:
		return fmt.Errorf("the copy ends at position %d instead of %d, and was removed: try again", p.last, report.Position)
	}
	report.Log = p.log
	if keys != nil {
		if err := work.place(report.KeysFile, keys, c.Force); err != nil {
			return err
		}
	}
	if err := give(tmp.Name(), c.File, c.Force); err != nil {
		return err
	}
	return c.tell(a, report)
}

func (c backupCmd) files() []string {
	if c.WithKeys {
		return []string{c.File, keysOf(c.File)}
	}
	return []string{c.File}
}

// copyLog copies the log of the server that runs on the directory, or else
// that of the directory itself. This needs nothing but the log, so it works
// where a server cannot start.
func (c backupCmd) copyLog(a *app, begin func(eventstore.Position, int64) (io.Writer, error)) error {
	d := dataDir(c.Data)
	var store *bolt.Store
	live, err := d.reach(a.ctx, func() (err error) {
		store, err = d.openReadOnly()
		return err
	})
	switch {
	case live:
		return (&admin{http: socketClient(d)}).copyLog(a.ctx, begin)
	case err != nil:
		return err
	}
	return errors.Join(store.Backup(a.ctx, begin), store.Close())
}

func (m *admin) copyLog(ctx context.Context, begin func(eventstore.Position, int64) (io.Writer, error)) error {
	resp, err := m.send(ctx, http.MethodGet, "/admin/backup", nil)
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

// openReadOnly opens the log of a directory on which no server runs.
func (d dataDir) openReadOnly() (*bolt.Store, error) {
	store, err := bolt.OpenReadOnly(d.ledger())
	switch {
	case errors.Is(err, bolt.ErrMissing):
		return nil, exitWith(exitDirectory, "%s is not a data directory, it has no ledger.db: check the path", d)
	case errors.Is(err, bolt.ErrLocked):
		return nil, exitWith(exitInUse, "the data directory %s is in use by another payledger process", d)
	case err != nil:
		return nil, exitWith(exitDirectory, "opening the event log: %w", err)
	}
	return store, nil
}

// copying writes to w and shows how far the copy has come, as a share of the
// events in it.
func copying(w io.Writer, stderr io.Writer, last eventstore.Position, size int64) io.Writer {
	return &progressWriter{w: w, last: last, size: max(size, 1), show: newProgress(stderr, "Copying the log")}
}

type progressWriter struct {
	w          io.Writer
	done, size int64
	last       eventstore.Position
	show       func(done, total eventstore.Position)
}

func (p *progressWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.done += int64(n)
	p.show(eventstore.Position(float64(p.last)*float64(p.done)/float64(p.size)), p.last)
	return n, err
}

func (c backupCmd) tell(a *app, r backupReport) error {
	if a.json {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.stdout, "Backup    %s\nLog       %s\nPosition  %d\nEvents    %d\nSize      %d bytes\n",
		r.File, r.Log, r.Position, r.Events, r.Bytes)
	if r.KeysFile != "" {
		fmt.Fprintf(a.stdout, "Keys      %s\n\nKeep the keys apart from the log: whoever has both can read and sign everything.\n", r.KeysFile)
		return nil
	}
	fmt.Fprintf(a.stdout, "\nThe keys are not in it. Keep copies of %s too: without master.key payment links cannot\n"+
		"be read, without log.key checkpoints cannot be signed. --with-keys copies them beside the backup.\n", dataDir(c.Data).keyNames())
	return nil
}
