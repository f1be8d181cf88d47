// Package export writes the log out as JSON Lines, CSV, a journal for hledger or
// an auditor's bundle, and reads and verifies bundles.
package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"payledger/cmd/payledger/cli"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/httpapi/wire"
)

// Options say what to write.
type Options struct {
	Format   string // jsonl, csv or hledger
	Project  string // "" for all
	After    eventstore.Position
	Details  bool // of payments that were not erased; only in jsonl
	Progress func(done, total eventstore.Position)
}

// Pass is one pass over the log, written in one format.
type Pass struct {
	m        *cli.Client
	format   format
	project  string
	after    eventstore.Position
	details  bool
	last     eventstore.Position // where to stop
	whole    string              // the only project whose events are not opaque; "": all
	progress func(done, total eventstore.Position)
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
	return &Pass{m: m, format: newFormat(o.Format), project: o.Project, after: o.After, details: o.Details, last: eventstore.Position(books.Position), progress: o.Progress}, nil
}

// Done is what came of an export.
type Done struct {
	Events   uint64              // that were read
	Position eventstore.Position // up to which the file has the log
}

// events calls fn for each event after a position, up to the last one.
func (x *Pass) events(ctx context.Context, after eventstore.Position, fn func(eventstore.Stored) error) (read uint64, err error) {
	if after >= x.last {
		return 0, nil
	}
	q := url.Values{"after": {strconv.FormatUint(uint64(after), 10)}}
	if x.project != "" {
		q.Set("project", x.project)
	}
	if x.whole != "" {
		q.Set("whole", x.whole)
	}
	if x.details {
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
		case r.Position <= at, x.project == "" && r.Position != at+1:
			return read, fmt.Errorf("the server sent position %d after %d", r.Position, at)
		case r.Position > x.last:
			return read, nil
		}
		if err := fn(r); err != nil {
			return read, err
		}
		at = r.Position
		read++
		x.progress(at, x.last)
		if at == x.last {
			return read, nil
		}
	}
	if x.project == "" {
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
	read, err = x.events(ctx, x.after, func(r eventstore.Stored) error {
		var err error
		if block, err = x.format.render(block[:0], r); err != nil {
			return err
		}
		_, err = out.Write(block)
		return err
	})
	return read, errors.Join(err, out.Flush())
}
