package restore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/export"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
)

// Events names the stream EVENTS as a source: that of Options.NATS, else the one in
// the directory.
const Events = bus.EventsStream

// jetStreamDir is where the embedded server keeps its streams.
const jetStreamDir = "jetstream"

func isJetStream(name string) bool { return datadir.Exists(filepath.Join(name, jetStreamDir)) }

func (r *restoring) addEvents(ctx context.Context) error {
	if r.Bus.URL == "" {
		return r.addJetStream(ctx, r.Data.NATS())
	}
	conn, err := bus.Connect(r.Bus, zerolog.Nop())
	if err != nil {
		return cli.Errorf(cli.ExitUsage, "--nats-url: %w", err)
	}
	defer conn.Close()
	return r.copyEvents(ctx, Events+" of --nats-url", conn)
}

// addJetStream reads EVENTS from the files of a server that does not run. A server
// runs on a copy of them, so that they do not change.
func (r *restoring) addJetStream(ctx context.Context, name string) error {
	work, err := r.scratch()
	if err != nil {
		return err
	}
	dir := work.File(fmt.Sprintf("nats-%d", len(r.parts)))
	defer os.RemoveAll(dir) //nolint:errcheck // with all of the scratch directory at the end
	found, err := copyStream(name, dir)
	switch {
	case err != nil:
		return cli.Errorf(cli.ExitDirectory, "copying %s: %w", name, err)
	case !found:
		return cli.Errorf(cli.ExitDirectory, "%s: there is no JetStream stream EVENTS in it", name)
	}
	server, err := embedded.Start(embedded.Config{Dir: dir, Log: zerolog.Nop()})
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "starting a NATS server on a copy of %s: %w", name, err)
	}
	defer server.Shutdown()
	conn, err := server.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	return r.copyEvents(ctx, filepath.Join(name, Events), conn)
}

// copyStream copies the files of the stream EVENTS, of any account.
func copyStream(from, to string) (found bool, err error) {
	streams, err := filepath.Glob(filepath.Join(from, jetStreamDir, "*", "streams", bus.EventsStream))
	for _, dir := range streams {
		found = true
		below, relErr := filepath.Rel(from, dir)
		err = errors.Join(err, relErr, os.CopyFS(filepath.Join(to, below), os.DirFS(dir)))
	}
	return found, err
}

// copyEvents copies EVENTS into a file of exported lines, so that the server can
// stop. Events that JetStream cannot read are left out, as they are in a damaged
// ledger.db.
func (r *restoring) copyEvents(ctx context.Context, name string, conn *bus.Conn) error {
	work, err := r.scratch()
	if err != nil {
		return err
	}
	f, err := datadir.CreatePrivate(work.File(fmt.Sprintf("events-%d.jsonl", len(r.parts))))
	if err != nil {
		return err
	}
	r.closers = append(r.closers, f.Close)
	out := bufio.NewWriterSize(f, 1<<18)
	var line []byte
	copied, err := bus.ReadEvents(ctx, conn, cli.Progress(r.Stderr, "Reading "+name), func(at eventstore.Position, body []byte) error {
		line = export.AppendLine(line[:0], at, body)
		_, err := out.Write(line)
		return err
	})
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "%s: %w", name, err)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	p := &part{name: name, log: copied.Log, last: copied.Last, records: lines(recorded, func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(f, 0, 1<<62)), nil
	})}
	if lacks := uint64(copied.Last) - copied.Events; lacks > 0 {
		p.trouble = fmt.Sprintf("%d of its %d events cannot be read", lacks, copied.Last)
	}
	r.parts = append(r.parts, p)
	return nil
}
