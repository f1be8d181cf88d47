package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	httpadmin "payledger/httpapi/admin"
	"payledger/projections"
	"payledger/projections/check"
)

// Evidence is a log to verify or replay: a running server's, a stopped
// directory's or a copy's. Nothing but a running server's is ever written to.
type Evidence struct {
	Dir    datadir.Dir // "" for a file
	Bundle bool        // which has a key and a checkpoint of its own
	Verify func(context.Context, audit.Against, func(httpadmin.Line) error) error
	Replay func(context.Context, httpadmin.ReplayRequest, func(httpadmin.Line) error) error
	Close  func() error
}

// OpenEvidence opens what the path names. It waits for a directory that another process is about to
// serve, or to leave, as long as other commands do. given is what a file is checked against before it
// is replayed.
func OpenEvidence(ctx context.Context, path string, given audit.Against, stderr io.Writer) (*Evidence, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return fileEvidence(path, given, stderr)
	}
	d := datadir.Dir(path)
	var stopped *Evidence
	live, err := d.Reach(ctx, func() error {
		_, store, err := openFile(d.Ledger())
		if err == nil {
			note, _, err := d.ReadRestored()
			if err != nil {
				return errors.Join(cli.Errorf(cli.ExitDirectory, "%w", err), store.Close())
			}
			e := evidenceOf(store, store.LogID())
			e.Structure, e.Missing, e.Restored = store.VerifyStructure, store.MissingCheckpoints, eventstore.Position(note.Act.Position)
			e.Compare = func(ctx context.Context, told httpadmin.Progress) (check.Comparison, error) {
				return check.File(ctx, projections.Config{
					Path: d.Projections(), Store: store, Codec: e.Ledger.Codec, LogID: store.LogID(), Progress: told,
				})
			}
			stopped = &Evidence{Dir: d, Verify: e.Verify, Replay: e.Replay, Close: store.Close}
		}
		return err
	})
	if live {
		return liveEvidence(d), nil
	}
	return stopped, err
}

func evidenceOf(s eventstore.Store, log domain.ID) httpadmin.Evidence {
	return httpadmin.Evidence{Ledger: eventstore.Ledger{Store: s, Codec: eventstore.NewCodec()}, LogID: log}
}

// fileEvidence is the log in a file, which is opened when it is asked for.
func fileEvidence(path string, given audit.Against, stderr io.Writer) (*Evidence, error) {
	bundle, store, err := openFile(path)
	if err != nil {
		return nil, err
	}
	e := &Evidence{Close: func() error { return nil }}
	if e.Bundle = bundle != nil; e.Bundle {
		e.Verify = func(ctx context.Context, q audit.Against, emit func(httpadmin.Line) error) error {
			report, err := bundle.Verify(ctx, audit.Options{Against: q}, cli.Progress(stderr, "Checking the log"))
			if err != nil {
				return err
			}
			return emit(httpadmin.Line{Report: report})
		}
	} else {
		of := evidenceOf(store, store.LogID())
		of.Structure, of.Missing = store.VerifyStructure, store.MissingCheckpoints
		e.Verify, e.Close = of.Verify, store.Close
	}
	e.Replay = func(ctx context.Context, q httpadmin.ReplayRequest, emit func(httpadmin.Line) error) error {
		log, err := openChecked(ctx, path, given, stderr)
		if err != nil {
			return err
		}
		defer log.Close() //nolint:errcheck // only read
		return evidenceOf(log, log.LogID()).Replay(ctx, q, emit)
	}
	return e, nil
}

// liveEvidence asks the server that runs on the directory.
func liveEvidence(d datadir.Dir) *Evidence {
	m := cli.ClientOf(d.DialSocket, "")
	return &Evidence{
		Dir: d, Close: func() error { return nil },
		Verify: func(ctx context.Context, q audit.Against, emit func(httpadmin.Line) error) error {
			return evidenceLines(ctx, m, "/admin/verify", q, emit)
		},
		Replay: func(ctx context.Context, q httpadmin.ReplayRequest, emit func(httpadmin.Line) error) error {
			return evidenceLines(ctx, m, "/admin/replay", q, emit)
		},
	}
}

// evidenceLines sends a request and yields the lines of the answer. An answer without its last line
// is an error.
func evidenceLines(ctx context.Context, m *cli.Client, path string, in any, emit func(httpadmin.Line) error) error {
	resp, err := m.Send(ctx, http.MethodPost, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := jsontext.NewDecoder(resp.Body); ; {
		var l httpadmin.Line
		err := json.UnmarshalDecode(lines, &l)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("the server's answer broke off or cannot be read, see its log: %w", err)
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
