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

// add opens one more source.
func (c *collected) add(ctx context.Context, name string) error {
	bundle, err := export.OpenBundle(name)
	switch {
	case name == Events:
		return c.addEvents(ctx)
	case err != nil:
		return err
	case bundle != nil:
		return c.addBundle(bundle)
	case isJetStream(name):
		return c.addJetStream(ctx, name)
	case export.IsJSONLines(name):
		c.parts = append(c.parts, &part{name: name, records: lines(stated, func(fn func(io.Reader) error) error {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // opened only for reading
			return fn(f)
		})})
		return nil
	}
	return c.addLedger(ctx, name)
}

// lines are exported lines. each calls its argument with them.
func lines(g grade, each func(func(io.Reader) error) error) func(context.Context) iter.Seq2[piece, error] {
	return func(context.Context) iter.Seq2[piece, error] {
		return func(yield func(piece, error) bool) {
			errEnough := errors.New("enough was read")
			err := each(func(r io.Reader) error {
				for record, err := range audit.Lines(r)(0) {
					p := piece{Stored: record, grade: g}
					if errors.As(err, &p.bad) {
						p.Position, err = p.bad.Position, nil
					}
					if err != nil {
						return err
					}
					if !yield(p, nil) {
						return errEnough
					}
				}
				return nil
			})
			if err != nil && !errors.Is(err, errEnough) {
				yield(piece{}, err)
			}
		}
	}
}

func (c *collected) addBundle(b *export.Bundle) error {
	in, err := b.Survey()
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
	c.parts = append(c.parts, &part{
		name: b.Path, log: manifest.LogID, checkpoint: in.Small[export.CheckpointFile], key: in.Small[export.KeyFile],
		records: lines(stated, func(fn func(io.Reader) error) error {
			events, err := b.OpenEvents()
			if err != nil {
				return err
			}
			defer events.Close() //nolint:errcheck // opened only for reading
			return fn(events)
		}),
	})
	return nil
}

// addLedger finds the readable records in a log's file, damaged or not.
func (c *collected) addLedger(ctx context.Context, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	c.closers = append(c.closers, f.Close)
	info, err := f.Stat()
	switch {
	case err != nil:
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	case !info.Mode().IsRegular():
		return cli.Errorf(cli.ExitDirectory, "%s is no file: name a ledger.db or a backup, an export, or the nats/ of a data directory", name)
	}
	if datadir.SameFile(name, c.Data.Ledger()) {
		c.own = true // and locked already
	} else if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return cli.Errorf(cli.ExitInUse, "%s is in use by a running payledger: stop it first", name)
	}
	const unit = 1 << 20
	show := cli.Progress(c.Stderr, "Looking through "+name+" (MiB)")
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
	c.parts = append(c.parts, p)
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
