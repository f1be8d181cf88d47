package salvage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/export"
	"payledger/eventstore"
	"payledger/eventstore/salvage"
	"payledger/notifier/bus"
)

// open reads all sources.
func (s *salvaging) open(ctx context.Context) error {
	for _, name := range s.Sources {
		if err := s.openOne(ctx, name); err != nil {
			return err
		}
	}
	if s.NATS.URL != "" {
		conn, err := bus.Connect(s.NATS, zerolog.Nop())
		if err != nil {
			return cli.Errorf(cli.ExitUsage, "--nats-url: %w", err)
		}
		defer conn.Close()
		return s.readEvents(ctx, "EVENTS of --nats-url", conn)
	}
	return nil
}

// openOne determines the kind of a source and reads it.
func (s *salvaging) openOne(ctx context.Context, name string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Errorf(cli.ExitDirectory, "%s does not exist", name)
	case err != nil:
		return cli.Errorf(cli.ExitDirectory, "%w", err)
	case !info.IsDir():
		return s.openFile(ctx, name)
	}
	d := datadir.Dir(name)
	switch {
	case datadir.Exists(filepath.Join(name, jetStreamDir)):
		return s.openNATS(ctx, name)
	case !slices.ContainsFunc(d.Files(), datadir.Exists):
		return cli.Errorf(cli.ExitDirectory, "%s is no data directory, no bundle and no directory of NATS: nothing of a log is in it", name)
	}
	return s.openData(ctx, d)
}

// openData reads a data directory: log, JetStream, checkpoint and key. It holds the
// lock of the log, so that no server can change them.
func (s *salvaging) openData(ctx context.Context, d datadir.Dir) error {
	if datadir.Exists(d.Ledger()) {
		if err := s.openLedger(ctx, d.Ledger()); err != nil {
			return err
		}
	}
	key, err := d.OwnVerifierKey()
	if err != nil {
		s.miss(d.LogKey(), err)
	} else if key != "" {
		s.keys = append(s.keys, key)
	}
	if b, err := os.ReadFile(d.Checkpoint()); err == nil {
		s.points = append(s.points, signedPoint{name: d.Checkpoint(), signed: b})
	} else if !errors.Is(err, fs.ErrNotExist) {
		s.miss(d.Checkpoint(), err)
	}
	if datadir.Exists(filepath.Join(d.NATS(), jetStreamDir)) {
		return s.openNATS(ctx, d.NATS())
	}
	return nil
}

// miss notes a source that cannot be read. The salvage continues with the others.
func (s *salvaging) miss(name string, err error) {
	s.unread = append(s.unread, UnreadSource{name, err.Error()})
	fmt.Fprintf(s.Stderr, "payledger: %s cannot be read: %v\n", name, err)
}

func (s *salvaging) openFile(ctx context.Context, name string) error {
	b, err := export.OpenBundle(name)
	switch {
	case err != nil:
		return err
	case b != nil:
		return s.openBundle(ctx, b)
	case export.IsJSONLines(name):
		return s.openLines(ctx, name, name, salvage.KindExport, 0, -1)
	}
	return s.openLedger(ctx, name)
}

// openShared opens a file for reading and takes a shared lock.
func (s *salvaging) openShared(name string) (f *os.File, size int64, err error) {
	if f, err = os.Open(name); err != nil {
		return nil, 0, cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	s.closers = append(s.closers, f.Close)
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, cli.Errorf(cli.ExitDirectory, "%w", err)
	case !info.Mode().IsRegular():
		return nil, 0, cli.Errorf(cli.ExitDirectory, "%s is no regular file", name)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, 0, cli.Errorf(cli.ExitInUse, "%s is in use by a running payledger: stop it first", name)
	}
	return f, info.Size(), nil
}

func (s *salvaging) openLedger(ctx context.Context, name string) error {
	f, size, err := s.openShared(name)
	if err != nil {
		return err
	}
	const unit = 1 << 20
	show := cli.Progress(s.Stderr, "Looking through "+name+" (MiB)")
	source, err := salvage.Ledger(ctx, name, f, size, func(done int64) {
		show(eventstore.Position(done/unit), eventstore.Position(size/unit))
	})
	if err != nil {
		return err
	}
	s.add(source)
	return nil
}

func (s *salvaging) add(source *salvage.Source) {
	s.sources = append(s.sources, source)
	if source.Trouble != "" {
		fmt.Fprintf(s.Stderr, "payledger: %s: %s\n", source.Name, source.Trouble)
	}
}

// openLines reads the exported lines in size bytes of a file; -1: to its end.
func (s *salvaging) openLines(ctx context.Context, name, file string, kind salvage.Kind, from, size int64) error {
	f, all, err := s.openShared(file)
	if err != nil {
		return err
	}
	if size < 0 {
		size = all - from
	}
	source, err := salvage.Lines(ctx, name, kind, io.NewSectionReader(f, from, size), size)
	if err != nil {
		return err
	}
	s.add(source)
	return nil
}

// openBundle reads a bundle without checking its manifest: the checkpoint proves
// the events. The lines of the whole file are read, so that an archive may be cut.
func (s *salvaging) openBundle(ctx context.Context, b *export.Bundle) error {
	if in, err := b.Survey(); err == nil {
		if point := in.Small[export.CheckpointFile]; point != nil {
			s.points = append(s.points, signedPoint{name: b.CheckpointName(), signed: point})
		}
		if key := in.Small[export.KeyFile]; key != nil {
			s.brought = append(s.brought, string(key))
		}
	}
	return s.openLines(ctx, b.Path, b.Path, salvage.KindExport, 0, -1)
}
