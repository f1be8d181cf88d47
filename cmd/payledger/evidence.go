package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"

	httpadmin "payledger/httpapi/admin"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/projections"
)

// evidence is a log to verify or replay: a running server's, a stopped
// directory's or a copy's. Nothing but a running server's is ever written to.
type evidence struct {
	dir    dataDir // "" for a file
	verify func(context.Context, httpadmin.VerifyRequest, func(httpadmin.Line) error) error
	replay func(context.Context, httpadmin.ReplayRequest, func(httpadmin.Line) error) error
	close  func() error
}

// openEvidence opens what the path names. A directory that another process is
// about to serve, or to leave, is waited for as long as other commands do.
func openEvidence(a *app, path string) (*evidence, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exitWith(exitDirectory, "%s does not exist: name a data directory, a copy of a ledger.db or an exported bundle", path)
	case err != nil:
		return nil, exitWith(exitDirectory, "%w", err)
	case !info.IsDir():
		return openStopped(path, "")
	}
	d := dataDir(path)
	var stopped *evidence
	live, err := d.reach(a.ctx, func() (err error) {
		stopped, err = openStopped(d.ledger(), d)
		return err
	})
	if live {
		return liveEvidence(d), nil
	}
	return stopped, err
}

// openStopped opens a log that no process writes to.
func openStopped(file string, d dataDir) (*evidence, error) {
	store, err := bolt.OpenReadOnly(file)
	switch {
	case errors.Is(err, bolt.ErrLocked):
		return nil, exitWith(exitInUse, "%s is in use by a process that does not answer on its admin socket: %w", file, err)
	case err != nil:
		return nil, exitWith(exitDirectory, "opening the event log: %w", err)
	}
	codec := eventstore.NewCodec()
	e := httpadmin.Evidence{
		Ledger: eventstore.Ledger{Store: store, Codec: codec}, LogID: store.LogID(), Missing: store.MissingCheckpoints, Structure: store.VerifyStructure,
	}
	if d != "" {
		e.Compare = func(ctx context.Context, told httpadmin.Progress) (projections.Comparison, error) {
			return projections.Compare(ctx, projections.Config{
				Path: d.projections(), Store: store, Codec: codec, LogID: store.LogID(), Progress: told,
			})
		}
	}
	return &evidence{dir: d, verify: e.Verify, replay: e.Replay, close: store.Close}, nil
}

// liveEvidence asks the server that runs on the directory.
func liveEvidence(d dataDir) *evidence {
	m := &admin{http: socketClient(d), live: true}
	return &evidence{
		dir: d, close: func() error { return nil },
		verify: func(ctx context.Context, q httpadmin.VerifyRequest, emit func(httpadmin.Line) error) error {
			return m.evidenceLines(ctx, http.MethodPost, "/admin/verify", q, emit)
		},
		replay: func(ctx context.Context, q httpadmin.ReplayRequest, emit func(httpadmin.Line) error) error {
			v := url.Values{"check": {strconv.FormatBool(q.Check)}}
			if q.Position != nil {
				v.Set("position", strconv.FormatUint(uint64(*q.Position), 10))
			}
			if q.Time != nil {
				v.Set("time", q.Time.String())
			}
			if q.Payment != nil {
				v.Set("payment", q.Payment.String())
			}
			return m.evidenceLines(ctx, http.MethodGet, "/admin/replay?"+v.Encode(), nil, emit)
		},
	}
}

// evidenceLines sends a request and hands on the lines of the answer. One that
// ends without its last line is an error.
func (m *admin) evidenceLines(ctx context.Context, method, path string, in any, emit func(httpadmin.Line) error) error {
	resp, err := m.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("the server's answer broke off, look into its log: %w", err)
		}
		var l httpadmin.Line
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		if err := emit(l); err != nil || l.Done != nil {
			return err
		}
	}
}

// showing passes lines on but for the progress, which it shows.
func (a *app) showing(emit func(httpadmin.Line) error) func(httpadmin.Line) error {
	steps := make(map[string]func(done, total eventstore.Position))
	return func(l httpadmin.Line) error {
		p := l.Progress
		if p == nil {
			return emit(l)
		}
		if steps[p.Step] == nil {
			steps[p.Step] = newProgress(a.stderr, p.Step)
		}
		steps[p.Step](p.Done, p.Total)
		return nil
	}
}

// printRaw prints one line of JSON in which a merchant's payload is as it was
// sent.
func (a *app) printRaw(v any) error {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%s\n", b)
	return err
}

// refusedLocally gives what a server would have refused the same exit code
// when no server was asked.
func refusedLocally(err error) error {
	var e *exitError
	if err == nil || errors.As(err, &e) || !httpadmin.Refused(err) {
		return err
	}
	return &exitError{exitRefused, err}
}
