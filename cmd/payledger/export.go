package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"payledger/eventstore"
	"payledger/eventstore/audit"
)

type exportCmd struct {
	inDirectory
	Format  string              `help:"What to write: jsonl, csv, hledger or bundle." enum:"jsonl,csv,hledger,bundle" default:"jsonl"`
	Output  string              `help:"File to write; of a bundle, the directory or a file named *.tar. Standard output without it." short:"o" placeholder:"FILE"`
	Project string              `help:"Only events of this project." placeholder:"PROJECT_ID"`
	After   eventstore.Position `help:"Start behind this position." placeholder:"POSITION"`
	Resume  bool                `help:"Go on where the file ends: an export that was interrupted, or one of an earlier day."`
}

// Help is shown by --help.
func (exportCmd) Help() string {
	return `Everything up to the last event there is when the command starts, whether the server
runs or not.

  jsonl    a line {"position":N,"event":…} for each event, with exactly the stored bytes
  csv      a row for each posting (RFC 4180), with debit and credit, for spreadsheets
  hledger  a journal for hledger, a transaction for each event that moves money
  bundle   what an auditor needs: events.jsonl, journal.hledger, the signed checkpoint,
           verifier.key and manifest.json with the SHA-256 of each file

With --json a last line on standard output says what was written to --output.`
}

// Validate refuses flags that do not go together.
func (c exportCmd) Validate() error {
	switch {
	case c.Resume && c.Output == "":
		return errors.New("--resume needs --output: it goes on with a file")
	case c.Format == "bundle" && c.Output == "":
		return errors.New("--format bundle needs --output: the directory, or a file named *.tar")
	case c.Format == "bundle" && (c.Project != "" || c.After > 0):
		return errors.New("--format bundle holds the whole log, as the checkpoint does: leave --project and --after away")
	}
	return nil
}

// Run writes the export.
func (c exportCmd) Run(a *app) error {
	return c.reading(a, func(m *admin) error {
		if c.Format == "bundle" {
			return c.bundle(a, m)
		}
		last, err := m.last(a)
		if err != nil {
			return err
		}
		x := export{m: m, format: newFormat(c.Format), project: c.Project, after: c.After, last: last}
		x.progress = newProgress(a.stderr, "Exporting")
		if c.Output == "" {
			return x.toStream(a)
		}
		done, err := x.toFile(a, c.Output, c.Resume)
		if err != nil {
			return err
		}
		return a.exported(c.Format, c.Output, done)
	})
}

// exported says what has been written.
func (a *app) exported(format, name string, done exportDone) error {
	if a.json {
		return a.printJSON(struct {
			Format   string `json:"format"`
			Output   string `json:"output"`
			Events   uint64 `json:"events"`
			Position uint64 `json:"position"`
			Resumed  uint64 `json:"resumed_after,omitzero"`
		}{format, name, done.events, uint64(done.position), uint64(done.resumed)})
	}
	from := ""
	if done.resumed > 0 {
		from = fmt.Sprintf(" after position %d", done.resumed)
	}
	_, err := fmt.Fprintf(a.stderr, "payledger: %s: %d events read%s, up to position %d\n", name, done.events, from, done.position)
	return err
}

// last is the position of the newest event.
func (m *admin) last(a *app) (eventstore.Position, error) {
	var books struct {
		Position eventstore.Position `json:"position"`
	}
	err := m.call(a.ctx, http.MethodGet, "/admin/balance", nil, &books)
	return books.Position, err
}

// export is one pass over the log, written in one format.
type export struct {
	m        *admin
	format   format
	project  string
	after    eventstore.Position
	last     eventstore.Position // where to stop
	progress func(done, total eventstore.Position)
}

// exportDone is what came of an export.
type exportDone struct {
	events   uint64              // that were read, by this run
	position eventstore.Position // up to which the file stands for the log
	resumed  eventstore.Position // where the file ended before
}

// events calls fn for each event after a position, up to the last one.
func (x *export) events(a *app, after eventstore.Position, fn func(eventstore.Stored) error) (read uint64, err error) {
	if after >= x.last {
		return 0, nil
	}
	q := url.Values{"after": {strconv.FormatUint(uint64(after), 10)}}
	setUnlessEmpty(q, "project", x.project)
	resp, err := x.m.send(a.ctx, http.MethodGet, "/admin/events?"+q.Encode(), nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	at := after
	for r, err := range audit.Lines(resp.Body)(0) {
		_, corrupt := errors.AsType[*eventstore.CorruptError](err)
		switch {
		case corrupt:
			return read, fmt.Errorf("what the server sent behind position %d is no event: %w", at, err)
		case err != nil:
			return read, fmt.Errorf("the server ended the stream of events behind position %d: look for the reason with \"payledger verify\", then go on with --resume: %w", at, err)
		case r.Position <= at, x.project == "" && r.Position != at+1:
			return read, fmt.Errorf("the server sent position %d behind %d", r.Position, at)
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
		return read, fmt.Errorf("the server ended the stream of events behind position %d of %d: go on with --resume", at, x.last)
	}
	return read, nil
}

// write renders the events after a position. It answers how many were read.
func (x *export) write(a *app, after eventstore.Position, out func([]byte) error) (read uint64, err error) {
	var block []byte
	return x.events(a, after, func(r eventstore.Stored) error {
		var err error
		if block, err = x.format.render(block[:0], r); err != nil {
			return err
		}
		return out(block)
	})
}

// toStream writes the export to standard output.
func (x *export) toStream(a *app) error {
	out := newBufferedWriter(a.stdout)
	if _, err := out.WriteString(x.format.header()); err != nil {
		return err
	}
	_, err := x.write(a, x.after, func(b []byte) error {
		_, err := out.Write(b)
		return err
	})
	return errors.Join(err, out.Flush())
}
