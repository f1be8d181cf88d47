package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
	"payledger/eventstore/translog"
)

// readExpected reads the directory's newest checkpoint, which shows what its log contained. The
// signature is not checked: the checkpoint is only used to refuse a backup.
func (r *restoring) readExpected() error {
	b, err := os.ReadFile(r.Data.Checkpoint())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	stated, _ := translog.Stated(b) // of a damaged one the zero value, which matches no log
	r.signed, r.expected = b, &stated
	return nil
}

// behind describes why the log cannot match the directory's checkpoint.
func (r *restoring) behind() []string {
	switch {
	case r.expected == nil:
		return nil
	case r.expected.Origin != translog.Origin(r.Log):
		return []string{"its checkpoint is not of the backup's log"}
	case r.expected.Size > r.Position:
		return []string{fmt.Sprintf("its checkpoint was signed for %d events, the backup has %d", r.expected.Size, r.Position)}
	}
	return nil
}

// compare compares the events of the copy, which each gets in order, with the directory's log and
// checkpoint. losses ends it and describes what differs.
func (r *restoring) compare(ctx context.Context) (each func(eventstore.Stored) error, losses func() []string) {
	var all []string
	gone := 0                                           // payments whose details only the directory's log has
	was := func(func(eventstore.Stored, error) bool) {} // no log to compare with
	if r.old != nil && r.old.LogID() == r.Log {
		was = r.old.Scan(ctx, 0, eventstore.Filter{})
	}
	next, stop := iter.Pull2(was)
	ended := false
	var tree *translog.Streaming // nil if there is no checkpoint of this log
	if r.expected != nil && len(r.behind()) == 0 {
		tree = translog.NewStreaming(*r.expected)
	}
	each = func(e eventstore.Stored) error {
		if !ended {
			old, err, ok := next()
			switch {
			case !ok, err != nil && r.own: // then all of it that can be read is taken
				ended, r.other = true, r.other || err != nil
			case err != nil:
				all = append(all, "its log cannot be read to the end, so it is unknown what the backup lacks: "+err.Error())
			case old.Commit != e.Commit || old.Stream != e.Stream || !bytes.Equal(old.Body, e.Body):
				all = append(all, fmt.Sprintf("its log has other events from position %d on", e.Position))
			case (old.Details == nil) != (e.Details == nil):
				r.other = true
				if e.Details == nil && !r.isErased(e.Stream) { // may be erased by what comes
					gone++
				}
			}
			ended = ended || len(all) > 0
		}
		if tree != nil && !r.forged {
			r.forged = tree.Append(e.Body) != nil
		}
		if e.Erases && gone > 0 && !r.isErased(e.Stream) {
			for first, err := range r.old.Load(ctx, e.Stream) {
				if err == nil && first.Details != nil {
					gone--
				}
				break
			}
		}
		return nil
	}
	return each, func() []string {
		stop()
		if gone > 0 {
			all = append(all, fmt.Sprintf("the details of %s would be gone", cli.Count(gone, "payment")))
		}
		if r.forged {
			all = append(all, "its checkpoint was signed for other events than the backup's")
		}
		return all
	}
}

// put moves the replaced files aside and renames the copy. At every moment the
// directory has a whole log or none; after a crash in between, restore again.
func (r *restoring) put(ctx context.Context, tmp string, keys datadir.KeyPlan) error {
	for _, name := range slices.Backward(datadir.PackedFiles()) { // with the log.key of another log no server uses its master.key
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
	// The projections may have events that the backup lacks: verify would report these as cut off. Of
	// events with other details than before they would keep what they have.
	if r.old == nil || r.lost || r.other {
		if err := errors.Join(datadir.RemoveIfExists(r.Data.Projections()), boltfile.SyncDir(string(r.Data))); err != nil {
			return err
		}
	}
	act := installation.LogRestored{RestoredAt: domain.InstantOf(time.Now()), File: filepath.Base(r.File), Position: uint64(r.Position), Forced: r.lost}
	note := datadir.RestoredNote{Actor: r.Actor, Act: act}
	if r.old != nil {
		if r.old.LogID() != r.Log {
			note.Replaced = r.old.LogID()
		}
		for e, err := range r.old.Scan(ctx, r.Position, eventstore.Filter{}) {
			if err == nil { // else it is damaged, and whether this log replaced it cannot be told
				note.Replaced = e.Commit
			}
			break
		}
	}
	if err := r.Data.WriteRestored(note); err != nil {
		return err
	}
	if r.rest != "" {
		rest := r.Data.Ledger() + r.stamp + ".rest.jsonl"
		if err := datadir.MoveInto(r.rest, rest, false); err != nil {
			return err
		}
		r.Kept = append(r.Kept, rest)
	}
	_, missing := os.Lstat(r.Data.Ledger())
	if err := r.keep(r.Data.Ledger()); err != nil {
		return err
	}
	if err := datadir.MoveInto(tmp, r.Data.Ledger(), missing == nil); err != nil {
		return err
	}
	if r.expected == nil || (len(r.behind()) == 0 && !r.forged) {
		return nil
	}
	// With this checkpoint, the server would report the end of the log as cut off.
	if err := r.keep(r.Data.Checkpoint()); err != nil {
		return err
	}
	return errors.Join(datadir.RemoveIfExists(r.Data.Checkpoint()), boltfile.SyncDir(string(r.Data)))
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
		r.Kept = append(r.Kept, aside)
	}
	return err
}
