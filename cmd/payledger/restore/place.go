package restore

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
	"payledger/eventstore/translog"
)

// expectedCheckpoint is the directory's newest checkpoint, which shows what its log contained.
// The signature is not checked: the checkpoint is only used to refuse a backup.
type expectedCheckpoint struct{ translog.Checkpoint }

// readExpected reads the directory's checkpoint.
func (r *restoring) readExpected() error {
	b, err := os.ReadFile(r.Data.Checkpoint())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	r.expected = &expectedCheckpoint{}
	lines := strings.SplitN(string(b), "\n", 4)
	if len(lines) != 4 {
		return nil // damaged: an empty checkpoint, which matches no log
	}
	size, sizeErr := strconv.ParseUint(lines[1], 10, 63)
	root, rootErr := base64.StdEncoding.DecodeString(lines[2])
	if sizeErr == nil && rootErr == nil && len(root) == tlog.HashSize {
		r.expected.Checkpoint = translog.Checkpoint{Origin: lines[0], Size: eventstore.Position(size), Root: tlog.Hash(root)}
	}
	return nil
}

// losses describes why a log with this id and length cannot match the checkpoint.
func (p *expectedCheckpoint) losses(log domain.ID, last eventstore.Position) []string {
	switch {
	case p == nil:
		return nil
	case p.Origin != translog.Origin(log):
		return []string{"its checkpoint is not of the backup's log"}
	case p.Size > last:
		return []string{fmt.Sprintf("its checkpoint was signed for %d events, the backup has %d", p.Size, last)}
	}
	return nil
}

// treeComparison compares the events of a backup, in order, with the directory's log and
// checkpoint.
type treeComparison struct {
	old    func() (eventstore.Stored, error, bool)
	stop   func()
	tree   *translog.Streaming // nil if there is no checkpoint of this log
	parted eventstore.Position // first position at which the logs differ; 0: none
	broken error               // read error of the directory's log
	forged bool                // the checkpoint does not match the backup's events
}

// compare begins the comparison.
func (r *restoring) compare(ctx context.Context) *treeComparison {
	c := &treeComparison{stop: func() {}}
	if r.old != nil && r.old.LogID() == r.log {
		c.old, c.stop = iter.Pull2(r.old.Scan(ctx, 0, eventstore.Filter{}))
	}
	if r.expected != nil && len(r.expected.losses(r.log, r.last)) == 0 {
		c.tree = translog.NewStreaming(r.expected.Checkpoint)
	}
	return c
}

// next compares one event of the backup.
func (c *treeComparison) next(r eventstore.Stored) error {
	if c.old != nil && c.parted == 0 && c.broken == nil {
		was, err, ok := c.old()
		switch {
		case !ok:
			c.old = nil
		case err != nil:
			c.broken = err
		case was.Commit != r.Commit || was.Stream != r.Stream || !bytes.Equal(was.Body, r.Body):
			c.parted = r.Position
		}
	}
	if c.tree != nil && !c.forged {
		c.forged = c.tree.Append(r.Body) != nil
	}
	return nil
}

// losses describes what differs. own: that the directory's log cannot be read to the
// end is no loss, because all of it that can be read is taken.
func (c *treeComparison) losses(own bool) []string {
	var all []string
	if c.parted != 0 {
		all = append(all, fmt.Sprintf("its log has other events from position %d on", c.parted))
	}
	if c.broken != nil && !own {
		all = append(all, "its log cannot be read to the end, so it is unknown what the backup lacks: "+c.broken.Error())
	}
	if c.forged {
		all = append(all, "its checkpoint was signed for other events than the backup's")
	}
	return all
}

// put moves the replaced files aside and renames the copy. At every moment the
// directory has a whole log or none; after a crash in between, restore again.
func (r *restoring) put(tmp string, keys datadir.KeyPlan) error {
	for _, name := range datadir.PackedFiles() {
		content, ok := keys.Put[name]
		if !ok {
			continue
		}
		if err := r.keep(r.Data.File(name)); err != nil {
			return err
		}
		if err := datadir.WriteFileSynced(r.Data.File(name), []byte(content)); err != nil {
			return err
		}
	}
	if err := r.clearDerived(); err != nil {
		return err
	}
	if err := r.Data.WriteRestored(datadir.RestoredNote{Actor: r.Actor, Act: installation.LogRestored{
		RestoredAt: domain.InstantOf(time.Now()), File: filepath.Base(r.File), Position: uint64(r.last), Forced: r.lost,
	}}); err != nil {
		return err
	}
	if c := r.collected; c != nil && c.rest != "" {
		rest := r.Data.Ledger() + r.stamp + ".rest.jsonl"
		if err := datadir.MoveInto(c.rest, rest, false); err != nil {
			return err
		}
		r.aside = append(r.aside, rest)
	}
	_, err := os.Lstat(r.Data.Ledger())
	replace := err == nil
	if replace {
		if err := r.keep(r.Data.Ledger()); err != nil {
			return err
		}
	}
	if err := datadir.MoveInto(tmp, r.Data.Ledger(), replace); err != nil {
		return err
	}
	if r.expected == nil || (len(r.expected.losses(r.log, r.last)) == 0 && !r.forged) {
		return nil
	}
	// With this checkpoint, the server would report the end of the log as cut off.
	if err := r.keep(r.Data.Checkpoint()); err != nil {
		return err
	}
	return errors.Join(datadir.RemoveIfExists(r.Data.Checkpoint()), boltfile.SyncDir(string(r.Data)))
}

// clearDerived deletes the projections, if they may contain events that the backup lacks:
// verify would report these as cut off. It runs before the log is replaced.
func (r *restoring) clearDerived() error {
	if r.old != nil && !r.lost {
		return nil
	}
	return errors.Join(datadir.RemoveIfExists(r.Data.Projections()), boltfile.SyncDir(string(r.Data)))
}

// keep gives a file a second name before it is replaced.
func (r *restoring) keep(name string) error {
	aside := name + r.stamp
	err := os.Link(name, aside)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrExist):
		return err
	case err != nil: // some file systems have no hard links
		err = os.Rename(name, aside)
	}
	if err == nil {
		r.aside = append(r.aside, aside)
	}
	return err
}
