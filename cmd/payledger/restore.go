package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
)

// restoreCmd puts a backup, or what was exported, in the place of a directory's
// event log.
type restoreCmd struct {
	inDirectory
	File        string   `arg:"" help:"Backup, bundle or export in JSON Lines to restore."`
	Keys        string   `help:"File with the keys, as \"backup --with-keys\" wrote it. Default: FILE.keys, if it is there." placeholder:"FILE"`
	Force       bool     `help:"Restore although the directory's log holds what FILE does not, is another log, or no checkpoint proves what is in FILE. What is replaced is kept beside."`
	Checkpoint  []string `help:"Signed checkpoint that proves an export; may be given more than once. Those of a bundle and of the directory need not be named." placeholder:"FILE"`
	VerifierKey []string `help:"Verifier key of the checkpoints, or a file that holds it; may be given more than once. Default: that of the directory, or of the bundle." placeholder:"KEY|FILE" sep:"none"`
}

// Help is shown by --help.
func (restoreCmd) Help() string {
	return `FILE is a backup, a bundle ("export --format bundle") or a whole export in JSON Lines, also
one that was finished with --resume. It is copied into the directory and read from end to end;
only when all of it is proved it takes the place of ledger.db. The directory may be missing or
empty; then the keys have to come too: put master.key (and log.key) there yourself, or restore
them from the file that "backup --with-keys" wrote.

An export has no checksums: a signed checkpoint has to prove it, the bundle's own, the one in
the directory or one given with --checkpoint. A log in an older format is taken over this way:

  old-payledger export --format bundle --output LOG.tar --data DIR
  payledger restore LOG.tar --data DIR --force

Refused is whatever would lose an event: a log that has more events than FILE or went on
differently. With --force it is moved aside, never deleted. No server may run on the
directory. Projections and the embedded JetStream need no care: the next start compares them
with the log and makes them anew where they differ. Where no copy is whole, see
"payledger salvage --help".

What was sent to webhook endpoints (lanes.db) is in no backup. It stays where FILE only adds
to the directory's log; otherwise it is moved aside too, and each endpoint is told once of
the newest event of every payment. Receivers take that for old news where they have seen its
sequence.`
}

// restoring is a restore under way.
type restoring struct {
	*app
	restoreSource

	dir   dataDir
	force bool

	old     *bolt.Store  // the directory's log, held; nil when there is none or it cannot be read
	release func() error // gives the directory back

	pledge *pledge // the directory's newest checkpoint, nil for none
	forged bool    // it is not of the backup's events
	lost   bool    // the directory knows what the backup does not
	aside  []string
	stamp  string
}

// Run restores the file.
func (c restoreCmd) Run(a *app) (err error) {
	r := &restoring{
		app: a, dir: dataDir(c.Data), force: c.Force,
		release: func() error { return nil },
		stamp:   ".replaced-" + time.Now().UTC().Format("20060102T150405.000Z"),
	}
	pack, err := c.readKeys()
	if err != nil {
		return err
	}
	if r.restoreSource, err = c.open(a, pack); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close(), r.release()) }()
	keys, err := r.dir.planKeys(pack)
	if err != nil {
		return err
	}
	if err := r.hold(); err != nil {
		return err
	}
	if err := r.mayLose(r.losses()); err != nil {
		return err
	}
	if len(keys.differ) > 0 {
		if err := r.mayLose([]string{"its " + strings.Join(keys.differ, " and ") + " would be replaced by another"}); err != nil {
			return err
		}
	}
	if err := r.mayServe(keys); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return exitWith(exitDirectory, "making %s: %w", c.Data, err)
	}
	work, err := newScratch(c.Data, r.dir.files()...)
	if err != nil {
		return exitWith(exitDirectory, "%w", err)
	}
	defer func() { err = errors.Join(err, work.remove()) }()
	tmp := work.file("ledger.db")
	if err := r.copy(tmp); err != nil {
		return err
	}
	if err := r.put(tmp, keys); err != nil {
		return fmt.Errorf("putting the log in place: %w", err)
	}
	return r.tell()
}

// readKeys reads the file of keys, if there is one, before anything is touched.
func (c restoreCmd) readKeys() (pack keyPack, err error) {
	name := c.Keys
	if name == "" {
		if _, err := os.Lstat(keysOf(c.File)); err == nil {
			name = keysOf(c.File)
		}
	}
	if name != "" {
		pack, err = readKeys(name)
	}
	return pack, err
}

// mayServe refuses a log.key of another log: no server would start with it.
func (r *restoring) mayServe(keys keyPlan) error {
	text, ok := keys.put[filepath.Base(r.dir.logKey())]
	if !ok {
		b, err := os.ReadFile(r.dir.logKey())
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the next start says how to make one
		}
		if err != nil {
			return exitWith(exitDirectory, "%w", err)
		}
		text = string(b)
	}
	s, err := translog.ParseSigner(text)
	if err == nil && s.Origin() != translog.Origin(r.log) {
		return exitWith(exitDirectory, "%s would be left with the key of another log, %s: put the log.key and master.key that belong to the backup there, "+
			"or name a file of keys with --keys, then restore again", r.dir, s.Origin())
	}
	return nil
}

// hold keeps everybody else out of the directory, and opens its log if that
// can be read.
func (r *restoring) hold() error {
	path := r.dir.ledger()
	if same(path, r.file) {
		return exitWith(exitUsage, "%s is the directory's own log: name a backup", r.file)
	}
	if err := r.readPledge(); err != nil {
		return err
	}
	var err error
	if r.old, err = bolt.Open(path, bolt.Options{Replaceable: true}); err == nil {
		r.release = r.old.Close
		return nil
	}
	switch {
	case errors.Is(err, bolt.ErrMissing):
		return r.vacant()
	case errors.Is(err, bolt.ErrLocked):
		return exitWith(exitInUse, "a payledger runs on %s: stop it first", r.dir)
	}
	unreadable := err
	release, err := bolt.Hold(path)
	if err != nil {
		return exitWith(exitDirectory, "the log in the way cannot be replaced: %w", errors.Join(unreadable, err))
	}
	r.release = release
	fmt.Fprintf(r.stderr, "payledger: the log in the way cannot be read: %v\n", unreadable)
	return nil
}

// vacant makes sure that a directory without a log is one to restore into.
func (r *restoring) vacant() error {
	if err := sweep(string(r.dir), r.dir.files()...); err != nil {
		return exitWith(exitDirectory, "%w", err)
	}
	entries, err := os.ReadDir(string(r.dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return exitWith(exitDirectory, "looking into %s: %w", r.dir, err)
	}
	for _, e := range entries {
		if !r.dir.ours(e.Name()) {
			return exitWith(exitDirectory, "%s holds other files (%s): choose a data directory, a new or an empty one", r.dir, e.Name())
		}
	}
	return nil
}

// losses lists what the directory knows and the backup does not, as far as
// that shows at once.
func (r *restoring) losses() []string {
	var all []string
	if r.old != nil {
		last, err := r.old.Last(r.ctx)
		switch {
		case err != nil:
			all = append(all, err.Error())
		case r.old.LogID() != r.log:
			all = append(all, fmt.Sprintf("its log is another one: %s, the backup is of %s", r.old.LogID(), r.log))
		case last > r.last:
			all = append(all, fmt.Sprintf("its log has %d events, the backup %d: the last %d would be gone", last, r.last, last-r.last))
		}
	} else if _, err := os.Lstat(r.dir.ledger()); err == nil {
		all = append(all, "its log cannot be read, so nobody knows what the backup lacks")
	}
	return append(all, r.pledge.losses(r.log, r.last)...)
}

// mayLose refuses losses that nobody has agreed to.
func (r *restoring) mayLose(losses []string) error {
	switch {
	case len(losses) == 0:
		return nil
	case r.force:
		r.lost = true
		for _, l := range losses {
			fmt.Fprintf(r.stderr, "payledger: %s: %s\n", r.dir, l)
		}
		return nil
	}
	return exitWith(exitRefused, "%s was left as it is: %s. With --force it is moved aside and the backup takes its place; \"payledger salvage\" first makes one log of all that both have",
		r.dir, strings.Join(losses, "; "))
}

// copy brings the log into the directory under another name and proves it
// there, so that what is proved is what will be used.
func (r *restoring) copy(to string) error {
	if err := r.write(to); err != nil {
		return refuseFile(r.file, err)
	}
	course := r.compare()
	p, err := prove(r.app, to, course.next)
	course.stop()
	if err != nil {
		return refuseFile(r.file, err)
	}
	if p.last != r.last || p.log != r.log {
		return fmt.Errorf("%s changed while it was copied: try again", r.file)
	}
	r.forged = course.forged
	return r.mayLose(course.losses())
}

// refuseFile says what is wrong with a backup.
func refuseFile(name string, err error) error {
	var open *bolt.OpenError
	var corrupt *eventstore.CorruptError
	detail := ""
	if errors.As(err, &open) && open.Detail != "" {
		detail = " (" + open.Detail + ")"
	}
	switch {
	case errors.Is(err, bolt.ErrMissing):
		return exitWith(exitDirectory, "%s: there is no such file", name)
	case errors.Is(err, bolt.ErrForeign):
		return exitWith(exitDirectory, "%s is not a backup of payledger%s: nothing was changed", name, detail)
	case errors.Is(err, bolt.ErrOutdated):
		return exitWith(exitDirectory, "%s is in an older format%s: with the version that wrote it restore it into an empty directory and run "+
			"\"payledger export --format bundle --output LOG.tar\" on that, then restore LOG.tar with this one; nothing was changed", name, detail)
	case errors.Is(err, bolt.ErrVersion):
		return exitWith(exitDirectory, "%s is in a format this payledger does not know%s: use the version that wrote it; nothing was changed", name, detail)
	case errors.Is(err, bolt.ErrLocked):
		return exitWith(exitInUse, "%s is in use by a running payledger: copy its log with \"payledger backup\"", name)
	case errors.Is(err, bolt.ErrDamaged):
		return exitWith(exitDirectory, "%s is damaged%s: take another backup, or see \"payledger salvage --help\"; nothing was changed", name, detail)
	case errors.As(err, &corrupt):
		return exitWith(exitDirectory, "%s: %w: take another backup, or see \"payledger salvage --help\"; nothing was changed", name, corrupt)
	}
	return fmt.Errorf("reading %s: %w", name, err)
}

func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

func (r *restoring) tell() error {
	if r.json {
		return r.printJSON(struct {
			Data     string              `json:"data"`
			Log      domain.ID           `json:"log"`
			Position eventstore.Position `json:"position"`
			Events   eventstore.Position `json:"events"`
			Kept     []string            `json:"kept,omitempty"`
		}{string(r.dir), r.log, r.last, r.last, r.aside})
	}
	fmt.Fprintf(r.stdout, "Restored  %s\nLog       %s\nPosition  %d\nEvents    %d\n", r.dir, r.log, r.last, r.last)
	for _, name := range r.aside {
		fmt.Fprintf(r.stdout, "Kept      %s\n", name)
	}
	if _, err := os.Lstat(r.dir.logKey()); err != nil {
		fmt.Fprintf(r.stdout, "\n%s is missing: put the copy you kept there.\n", r.dir.logKey())
	}
	_, err := fmt.Fprintf(r.stdout, "\nNext: payledger serve --data %s\n", r.dir)
	return err
}
