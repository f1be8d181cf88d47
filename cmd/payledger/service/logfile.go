package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/export"
	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
	"payledger/projections"
)

// logFile is the log in a file, an exported bundle or a copy of a ledger.db.
type logFile interface {
	eventstore.Store
	LogID() domain.ID
}

// openFile opens what is no directory: the bundle is not nil, or the copy.
func openFile(path string) (*export.Bundle, *bolt.Store, error) {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, cli.Errorf(cli.ExitDirectory, "%s does not exist: name a data directory, a copy of a ledger.db or an exported bundle", path)
	case err != nil:
		return nil, nil, cli.Errorf(cli.ExitDirectory, "%w", err)
	case info.IsDir():
		return nil, nil, cli.Errorf(cli.ExitDirectory, "%s is a directory: name it with --data", path)
	}
	if bundle, err := export.OpenBundle(path); err != nil || bundle != nil {
		return bundle, nil, err
	}
	store, err := bolt.OpenReadOnly(path)
	switch {
	case errors.Is(err, bolt.ErrLocked):
		return nil, nil, cli.Errorf(cli.ExitInUse, "%s is in use by a process that does not answer on its admin socket: %w", path, err)
	case errors.Is(err, bolt.ErrForeign):
		return nil, nil, cli.Errorf(cli.ExitDirectory, "%s is neither an exported bundle nor a copy of a ledger.db: %w", path, err)
	case err != nil:
		return nil, nil, cli.Errorf(cli.ExitDirectory, "opening the event log: %w", err)
	}
	return nil, store, nil
}

// openChecked opens the log in a file and checks that it is as it was recorded: a bundle against its
// checkpoint, a copy in its structure, both against the checkpoints that are given.
func openChecked(ctx context.Context, path string, given audit.Against, stderr io.Writer) (logFile, error) {
	progress := cli.Progress(stderr, "Checking the log")
	bundle, store, err := openFile(path)
	switch {
	case err != nil:
		return nil, err
	case bundle != nil:
		log, note, err := bundle.CheckedLog(ctx, given, progress)
		if err == nil && note != "" {
			fmt.Fprintf(stderr, "payledger: %s: %s\n", path, note)
		}
		if err != nil {
			return nil, err
		}
		if of := log.Project(); of != "" {
			fmt.Fprintf(stderr, "payledger: %s: only events of project %s are in it, and those that move its money: what others say, such as providers' reports and payouts, is missing in the answer\n", path, of)
		}
		return log, nil
	}
	if len(given.Checkpoints) > 0 && len(given.Verifiers) == 0 {
		return nil, errors.Join(datadir.NeedsKey(), store.Close())
	}
	if err := checkCopy(ctx, store, given, progress); err != nil {
		if ctx.Err() == nil {
			err = cli.Errorf(cli.ExitVerify, "%s is damaged or was altered: %w. \"payledger verify %[1]s\" tells more", path, err)
		}
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// checkCopy checks the structure of a copy, and its tree against the checkpoints.
func checkCopy(ctx context.Context, store *bolt.Store, given audit.Against, progress func(done, total eventstore.Position)) error {
	var pinned []translog.Checkpoint
	last, err := store.Last(ctx)
	if err != nil {
		return err
	}
	for _, c := range given.Checkpoints {
		opened, err := given.Open(c, translog.Origin(store.LogID()))
		if err != nil {
			return err
		}
		if opened.Size > last {
			return &translog.TruncatedError{Checkpoint: opened, Size: last}
		}
		pinned = append(pinned, opened)
	}
	if err := store.VerifyStructure(ctx); err != nil || len(pinned) == 0 {
		return err
	}
	tree := translog.NewStreaming(pinned...)
	for r, err := range store.Scan(ctx, 0, eventstore.Filter{}) {
		if err == nil {
			err = tree.Append(r.Body)
		}
		if err != nil {
			return err
		}
		if r.Position%progressEach == 0 {
			progress(r.Position, last)
		}
	}
	return nil
}

// progressEach is the number of events between two calls of progress.
const progressEach = 1 << 13

// ReadFile checks the log in a file and serves the admin interface on it to this process, for
// commands that only read. With booksOnly only balances can be asked for.
func ReadFile(ctx context.Context, path string, given audit.Against, booksOnly bool, stderr io.Writer) (*cli.Client, error) {
	return serveOwn(func(parts *process.Parts, tmp datadir.Dir) (http.Handler, error) {
		log, err := openChecked(ctx, path, given, stderr)
		if err != nil {
			return nil, err
		}
		parts.Add("event log", process.Part{Stop: log.Close})
		ledger := eventstore.Ledger{Store: log, Codec: eventstore.NewCodec()}
		views, err := projections.Open(ctx, projections.Config{
			Path: tmp.Projections(), Store: log, Codec: ledger.Codec, LogID: log.LogID(), BooksOnly: booksOnly,
			Progress: cli.Progress(stderr, "Reading the log"),
		})
		if err != nil {
			return nil, err
		}
		parts.Add("projections", process.Part{Stop: views.Close})
		var checkpoint func(context.Context) ([]byte, error)
		if of, bundle := log.(*export.Log); bundle {
			checkpoint = of.Checkpoint
		}
		return readOnly(ledger, views, nil, checkpoint)
	})
}
