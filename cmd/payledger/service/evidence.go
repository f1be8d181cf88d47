package service

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

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	httpadmin "payledger/httpapi/admin"
	"payledger/projections"
	"payledger/projections/check"
)

// Evidence is a log to verify or replay: a running server's, a stopped
// directory's or a copy's. Nothing but a running server's is ever written to.
type Evidence struct {
	Dir    datadir.Dir // "" for a file
	Verify func(context.Context, httpadmin.VerifyRequest, func(httpadmin.Line) error) error
	Replay func(context.Context, httpadmin.ReplayRequest, func(httpadmin.Line) error) error
	Close  func() error
}

// OpenEvidence opens what the path names. It waits for a directory that another process is about to
// serve, or to leave, as long as other commands do.
func OpenEvidence(ctx context.Context, path string) (*Evidence, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Errorf(cli.ExitDirectory, "%s does not exist: name a data directory, a copy of a ledger.db or an exported bundle", path)
	case err != nil:
		return nil, cli.Errorf(cli.ExitDirectory, "%w", err)
	case !info.IsDir():
		return openStopped(path, "")
	}
	d := datadir.Dir(path)
	var stopped *Evidence
	live, err := d.Reach(ctx, func() (err error) {
		stopped, err = openStopped(d.Ledger(), d)
		return err
	})
	if live {
		return liveEvidence(d), nil
	}
	return stopped, err
}

// openStopped opens a log that no process writes to.
func openStopped(file string, d datadir.Dir) (*Evidence, error) {
	store, err := bolt.OpenReadOnly(file)
	switch {
	case errors.Is(err, bolt.ErrLocked):
		return nil, cli.Errorf(cli.ExitInUse, "%s is in use by a process that does not answer on its admin socket: %w", file, err)
	case err != nil:
		return nil, cli.Errorf(cli.ExitDirectory, "opening the event log: %w", err)
	}
	codec := eventstore.NewCodec()
	e := httpadmin.Evidence{
		Ledger: eventstore.Ledger{Store: store, Codec: codec}, LogID: store.LogID(), Missing: store.MissingCheckpoints, Structure: store.VerifyStructure,
	}
	if d != "" {
		e.Compare = func(ctx context.Context, told httpadmin.Progress) (check.Comparison, error) {
			return check.File(ctx, projections.Config{
				Path: d.Projections(), Store: store, Codec: codec, LogID: store.LogID(), Progress: told,
			})
		}
	}
	return &Evidence{Dir: d, Verify: e.Verify, Replay: e.Replay, Close: store.Close}, nil
}

// liveEvidence asks the server that runs on the directory.
func liveEvidence(d datadir.Dir) *Evidence {
	m := cli.ClientOf(d.DialSocket)
	return &Evidence{
		Dir: d, Close: func() error { return nil },
		Verify: func(ctx context.Context, q httpadmin.VerifyRequest, emit func(httpadmin.Line) error) error {
			return evidenceLines(ctx, m, http.MethodPost, "/admin/verify", q, emit)
		},
		Replay: func(ctx context.Context, q httpadmin.ReplayRequest, emit func(httpadmin.Line) error) error {
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
			return evidenceLines(ctx, m, http.MethodGet, "/admin/replay?"+v.Encode(), nil, emit)
		},
	}
}

// evidenceLines sends a request and yields the lines of the answer. An answer without its last line
// is an error.
func evidenceLines(ctx context.Context, m *cli.Client, method, path string, in any, emit func(httpadmin.Line) error) error {
	resp, err := m.Send(ctx, method, path, in)
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
			return fmt.Errorf("the server's answer broke off, see its log: %w", err)
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

// RefusedLocally gives what a server would have refused the same exit code
// when no server was asked.
func RefusedLocally(err error) error {
	var e *cli.ExitError
	if err == nil || errors.As(err, &e) || !httpadmin.Refused(err) {
		return err
	}
	return cli.WithCode(cli.ExitRefused, err)
}
