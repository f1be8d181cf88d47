package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/export"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
)

// part is what one source has of the log.
type part struct {
	name    string
	log     domain.ID           // zero: the source does not say
	last    eventstore.Position // that the source says it has, 0 if it does not say
	trouble string              // about what cannot be read in it; "" for none
	events  int                 // number of readable ones, counted by the newest merge

	// Of a bundle, else nil.
	checkpoint, key []byte

	// records makes a pass over the part, by position.
	records func(context.Context) iter.Seq2[piece, error]
}

// open opens what is to be restored. A single backup is copied as it is, unless
// erasures came after it; other sources are read event by event.
func (r *restoring) open(ctx context.Context, pack datadir.KeyPack) error {
	bundle, err := export.OpenBundle(r.File)
	switch {
	case err != nil:
		return err
	case bundle != nil, export.IsJSONLines(r.File), isJetStream(r.File), r.File == Events, len(r.Then) > 0, r.Until > 0:
		return r.collect(ctx, pack)
	case len(r.Checkpoint)+len(r.VerifierKey) > 0:
		return cli.Errorf(cli.ExitUsage, "--checkpoint and --verifier-key prove an export; check a backup with \"payledger verify\"")
	}
	backup, err := bolt.OpenReadOnly(r.File)
	if err != nil {
		return refuseFile(r.File, err)
	}
	// The backup stays locked while it is copied.
	r.Log, r.closers = backup.LogID(), append(r.closers, backup.Close)
	r.write = func(ctx context.Context, to string) error {
		if len(r.erased) > 0 {
			records := r.withoutErased(backup.Scan(ctx, 0, eventstore.Filter{}))
			missing, err := backup.MissingCheckpoints(ctx)
			if err == nil {
				_, err = bolt.Build(ctx, to, r.Log, claimed(records, cli.Progress(r.Stderr, "Writing the log")), missing...)
			}
			return err
		}
		err := datadir.CopyFile(r.File, to, func(w io.Writer, size int64) io.Writer { return cli.CopyProgress(w, r.Stderr, r.Position, size) })
		if err != nil {
			return fmt.Errorf("copying the backup: %w", err)
		}
		return nil
	}
	r.Position, err = backup.Last(ctx)
	return err
}

// add opens one more source.
func (r *restoring) add(ctx context.Context, name string) error {
	bundle, err := export.OpenBundle(name)
	switch {
	case name == Events:
		return r.addEvents(ctx)
	case err != nil:
		return err
	case bundle != nil:
		return r.addBundle(ctx, bundle)
	case isJetStream(name):
		return r.addJetStream(ctx, name)
	case export.IsJSONLines(name):
		r.parts = append(r.parts, &part{name: name, records: lines(stated, func() (io.ReadCloser, error) { return os.Open(name) })})
		return nil
	}
	return r.addLedger(ctx, name)
}

// lines are exported lines, which are opened for each pass.
func lines(g grade, open func() (io.ReadCloser, error)) func(context.Context) iter.Seq2[piece, error] {
	return func(context.Context) iter.Seq2[piece, error] {
		return func(yield func(piece, error) bool) {
			in, err := open()
			if err != nil {
				yield(piece{}, err)
				return
			}
			defer in.Close() // opened only for reading
			for record, err := range audit.Lines(in)(0) {
				p := piece{Stored: record, grade: g}
				if errors.As(err, &p.bad) {
					p.Position, err = p.bad.Position, nil
				}
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}
}

func (r *restoring) addBundle(ctx context.Context, b *export.Bundle) error {
	in, err := b.Survey(ctx)
	if err != nil {
		return export.OpenFailed(err)
	}
	var manifest export.Manifest
	if faults := export.ReadManifest(in, &manifest); len(faults) > 0 {
		return cli.Errorf(cli.ExitDirectory, "%s cannot be restored: %s: %s. It has to be a whole bundle. Nothing was changed",
			b.Path, export.ManifestFile, strings.Join(faults, "; "))
	}
	if manifest.Project != "" {
		return cli.Errorf(cli.ExitDirectory, "%s cannot be restored: it has the events of project %s only, of the others their hashes. Nothing was changed", b.Path, manifest.Project)
	}
	r.parts = append(r.parts, &part{
		name: b.Path, log: manifest.LogID, checkpoint: in.Small[export.CheckpointFile], key: in.Small[export.KeyFile],
		records: lines(stated, func() (io.ReadCloser, error) { return b.OpenEvents() }),
	})
	return nil
}

// addLedger finds the readable records in a log's file, damaged or not.
func (r *restoring) addLedger(ctx context.Context, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	r.closers = append(r.closers, f.Close)
	info, err := f.Stat()
	switch {
	case err != nil:
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	case !info.Mode().IsRegular():
		return cli.Errorf(cli.ExitDirectory, "%s is no file: name a ledger.db or a backup, an export, or the nats/ of a data directory", name)
	}
	if datadir.SameFile(name, r.Data.Ledger()) {
		r.own = true // and locked already
	} else if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return cli.Errorf(cli.ExitInUse, "%s is in use by a running payledger: stop it first", name)
	}
	const unit = 1 << 20
	show := cli.Progress(r.Stderr, "Looking through "+name+" (MiB)")
	var found []bolt.FoundRecord
	file, err := bolt.FindRecords(ctx, f, info.Size(), func(done int64) {
		show(eventstore.Position(done/unit), eventstore.Position(info.Size()/unit))
	}, func(r bolt.FoundRecord) error {
		found = append(found, r)
		return nil
	})
	if err != nil {
		return err
	}
	p := &part{name: name, log: file.LogID, records: readRecords(f, arranged(found))}
	switch {
	case len(found) == 0 && p.log.IsZero():
		p.trouble = "nothing of a log can be read in it"
	case file.Unread > 0:
		p.trouble = fmt.Sprintf("%d bytes of it cannot be read", file.Unread)
	}
	r.parts = append(r.parts, p)
	return nil
}

// arranged sorts the records by position, and makes one of all copies of a
// record, with the details that any of them has.
func arranged(found []bolt.FoundRecord) []bolt.FoundRecord {
	same := func(a, b bolt.FoundRecord) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Sum, b.Sum), cmp.Compare(a.Size, b.Size))
	}
	slices.SortFunc(found, same)
	n := 0
	for _, r := range found {
		if n == 0 || same(found[n-1], r) != 0 {
			found[n] = r
			n++
			continue
		}
		kept := &found[n-1]
		if kept.DetailsSize == 0 {
			kept.DetailsAt, kept.DetailsSize = r.DetailsAt, r.DetailsSize
		}
		kept.Used = kept.Used || r.Used
	}
	return slices.Clip(found[:n])
}

// readRecords reads the records again when they are asked for, with the details that they commit to.
func readRecords(f io.ReaderAt, found []bolt.FoundRecord) func(context.Context) iter.Seq2[piece, error] {
	return func(ctx context.Context) iter.Seq2[piece, error] {
		return func(yield func(piece, error) bool) {
			codec := eventstore.NewCodec()
			for _, at := range found {
				record, err := bolt.ReadFound(f, at)
				if record.Details != nil {
					if _, err := codec.Decode(record); err != nil {
						record.Details = nil
					}
				}
				p := piece{Stored: record}
				if at.Used {
					p.grade = recorded
				}
				if errors.As(err, &p.bad) {
					p.Position, err = at.Position, nil
				}
				if err == nil {
					err = ctx.Err()
				}
				if !yield(p, err) || err != nil {
					return
				}
			}
		}
	}
}
