// Package export writes the log out as JSON Lines, CSV, a journal for hledger or
// an auditor's bundle, and reads and verifies bundles.
package export

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/httpapi/wire"
)

// Options say what to write.
type Options struct {
	Format  string              `help:"What to write: jsonl, csv, hledger or bundle." enum:"jsonl,csv,hledger,bundle" default:"jsonl"`
	Output  string              `help:"File to write; a bundle is a file named *.tar. Standard output without it, and for -." short:"o" placeholder:"FILE"`
	Project string              `help:"Only events of this project; in csv and hledger what moves its money, and nothing else." placeholder:"PROJECT_ID"`
	After   eventstore.Position `help:"Start after this position." placeholder:"POSITION"`
	Details bool                `name:"with-details" help:"Write the details of payments that were not erased, too. Only in jsonl and a bundle."`

	Progress func(done, total eventstore.Position) `kong:"-"`
}

const exportBuffer = 1 << 18

// Pass is one pass over the log, written in one format.
type Pass struct {
	Options

	m      *cli.Client
	format format
	last   eventstore.Position // where to stop
	whole  string              // the only project whose events are not opaque; "": all
}

// New begins an export that ends at the newest event there is now.
func New(ctx context.Context, m *cli.Client, o Options) (*Pass, error) {
	var books wire.Books
	if err := m.Call(ctx, http.MethodGet, "/admin/balance", nil, &books); err != nil {
		return nil, err
	}
	if uint64(o.After) > books.Position {
		return nil, cli.Errorf(cli.ExitRefused, "--after: The log ends before this position, at %d.", books.Position)
	}
	x := &Pass{Options: o, m: m, format: newFormat(o.Format, o.Project), last: eventstore.Position(books.Position)}
	if o.Format != "jsonl" { // events of others move the project's money, too
		x.whole, x.Project = o.Project, ""
	}
	return x, nil
}

// Done is what came of an export.
type Done struct {
	Format   string              `json:"format"`
	Output   string              `json:"output"`
	Events   uint64              `json:"events"`   // that were read
	Position eventstore.Position `json:"position"` // up to which the file has the log
}

// events calls fn for each event after a position, up to the last one.
func (x *Pass) events(ctx context.Context, after eventstore.Position, fn func(eventstore.Stored) error) (read uint64, err error) {
	if after >= x.last {
		return 0, nil
	}
	q := url.Values{"after": {strconv.FormatUint(uint64(after), 10)}}
	if x.Project != "" {
		q.Set("project", x.Project)
	}
	if x.whole != "" {
		q.Set("whole", x.whole)
	}
	if x.Details {
		q.Set("details", "true")
	}
	resp, err := x.m.Send(ctx, http.MethodGet, "/admin/events?"+q.Encode(), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	at := after
	for r, err := range audit.Lines(resp.Body)(0) {
		_, corrupt := errors.AsType[*eventstore.CorruptError](err)
		switch {
		case corrupt:
			return read, fmt.Errorf("what the server sent after position %d is no event: %w", at, err)
		case err != nil:
			return read, fmt.Errorf("the server ended the stream of events after position %d: look for the reason with \"payledger verify\", then export again: %w", at, err)
		case r.Position <= at, x.Project == "" && r.Position != at+1:
			return read, fmt.Errorf("the server sent position %d after %d", r.Position, at)
		case r.Position > x.last:
			return read, nil
		}
		if err := fn(r); err != nil {
			return read, err
		}
		at = r.Position
		read++
		x.Progress(at, x.last)
		if at == x.last {
			return read, nil
		}
	}
	if x.Project == "" {
		return read, fmt.Errorf("the server ended the stream of events after position %d of %d: export again", at, x.last)
	}
	return read, nil
}

// ToStream writes the export to w, and returns how many events were read.
func (x *Pass) ToStream(ctx context.Context, w io.Writer) (read uint64, err error) {
	out := bufio.NewWriterSize(w, exportBuffer)
	if _, err := out.WriteString(x.format.header()); err != nil {
		return 0, err
	}
	var block []byte
	read, err = x.events(ctx, x.After, func(r eventstore.Stored) (err error) {
		if block, err = x.format.render(block[:0], r); err != nil {
			return err
		}
		_, err = out.Write(block)
		return err
	})
	return read, cmp.Or(err, out.Flush()) // which repeats the error of a write
}

// ToFile writes the export to Options.Output, which does not exist yet, and syncs it.
func (x *Pass) ToFile(ctx context.Context) (done Done, err error) {
	err = whenWhole(x.Output, func(unfinished string) error {
		done, err = x.create(ctx, unfinished)
		return err
	})
	return done, err
}

// whenWhole has a file or directory written under a temporary name, and renames it once it is
// complete: an interrupted export leaves nothing that looks finished.
func whenWhole(name string, create func(unfinished string) error) (err error) {
	name = filepath.Clean(name)
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s exists: choose another name", name)
	}
	work, err := datadir.NewScratch(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	unfinished := work.File(filepath.Base(name))
	if err := create(unfinished); err != nil {
		return err
	}
	return datadir.MoveInto(unfinished, name, false)
}

func (x *Pass) create(ctx context.Context, name string) (Done, error) {
	done := Done{Format: x.Format, Output: x.Output, Position: max(x.last, x.After)}
	f, err := datadir.CreatePrivate(name)
	if err != nil {
		return done, err
	}
	done.Events, err = x.ToStream(ctx, f)
	return done, errors.Join(err, f.Sync(), f.Close())
}
