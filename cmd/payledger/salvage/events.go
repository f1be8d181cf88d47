package salvage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/eventstore/salvage"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
)

// jetStreamDir is where the embedded server keeps its streams.
const jetStreamDir = "jetstream"

// openNATS starts the embedded server on a copy of the directory's EVENTS.
func (s *salvaging) openNATS(ctx context.Context, name string) error {
	dir := s.work.File(fmt.Sprintf("nats-%d", len(s.sources)))
	found, err := copyEvents(name, dir)
	switch {
	case err != nil && ctx.Err() == nil:
		s.miss(name, err)
		return nil
	case err != nil:
		return err
	case !found:
		s.miss(name, errors.New("there is no JetStream stream EVENTS in it"))
		return nil
	}
	server, err := embedded.Start(embedded.Config{Dir: dir, Log: zerolog.Nop()})
	if err != nil {
		s.miss(name, err)
		return nil
	}
	defer server.Shutdown()
	conn, err := server.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	return s.readEvents(ctx, filepath.Join(name, "EVENTS"), conn)
}

// copyEvents copies the files of the stream EVENTS, of any account, without those
// of its consumers. A file with a read error is copied up to the error.
func copyEvents(from, to string) (found bool, err error) {
	streams, err := filepath.Glob(filepath.Join(from, jetStreamDir, "*", "streams", bus.EventsStream))
	if err != nil {
		return false, err
	}
	for _, dir := range streams {
		found = true
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			below, err := filepath.Rel(from, name)
			switch {
			case err != nil:
				return err
			case e.IsDir() && e.Name() == "obs":
				return fs.SkipDir
			case e.IsDir():
				return os.MkdirAll(filepath.Join(to, below), 0o700)
			case e.Type().IsRegular():
				return copyReadable(name, filepath.Join(to, below))
			}
			return nil
		})
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

func copyReadable(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // opened only for reading
	out, err := datadir.CreatePrivate(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if errors.Is(err, unix.EIO) {
		err = nil
	}
	return errors.Join(err, out.Close())
}

// readEvents copies EVENTS into a file of exported lines and reads that file as a
// source, so that the server can stop.
func (s *salvaging) readEvents(ctx context.Context, name string, conn *bus.Conn) error {
	file := s.work.File(fmt.Sprintf("events-%d.jsonl", len(s.sources)))
	f, err := datadir.CreatePrivate(file)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<18)
	var line []byte
	copied, err := bus.ReadEvents(ctx, conn, cli.Progress(s.Stderr, "Reading "+name), func(at eventstore.Position, body []byte) error {
		line = salvage.AppendLine(line[:0], at, body)
		_, err := out.Write(line)
		return err
	})
	if ctx.Err() != nil {
		return errors.Join(err, f.Close())
	}
	if err != nil {
		s.miss(name, err)
	}
	if err := errors.Join(out.Flush(), f.Close()); err != nil {
		return err
	}
	if copied.Events == 0 {
		return nil
	}
	if err := s.openLines(ctx, name, file, salvage.KindEvents, 0, -1); err != nil {
		return err
	}
	source := s.sources[len(s.sources)-1]
	source.Log = copied.Log
	if lacks := uint64(copied.Last) - copied.Events; lacks > 0 {
		source.Trouble = fmt.Sprintf("%d of its %d events cannot be read", lacks, copied.Last)
		fmt.Fprintf(s.Stderr, "payledger: %s: %s\n", name, source.Trouble)
	}
	return nil
}
