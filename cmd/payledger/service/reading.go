package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/checkpoints"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	httpadmin "payledger/httpapi/admin"
	"payledger/httpapi/checkout"
	"payledger/httpapi/merchant"
	"payledger/projections"
)

// notWritable reports whether an error means that the log's file cannot be
// written, as on a read-only mount.
func notWritable(err error) bool {
	_, opening := errors.AsType[*bolt.OpenError](err)
	return opening && (errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission))
}

// reading is a data directory that cannot be written to, for commands that
// only read. Everything derived from the log lies in a temporary directory.
type reading struct {
	store  *bolt.Store
	views  *projections.Engine
	signed *checkpoints.Signer
	links  *checkout.Links

	stopViews context.CancelFunc
	viewsDone chan error
}

// openForReading opens the log for reading. The projections are a copy of the
// directory's in tmp, brought up to the log there.
func openForReading(ctx context.Context, d datadir.Dir, o CoreOptions, tmp string) (_ *reading, err error) {
	store, err := bolt.OpenReadOnly(d.Ledger())
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "opening the event log for reading: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, store.Close())
		}
	}()
	signer, err := d.LogSigner(store.LogID())
	if err != nil {
		return nil, err
	}
	keys, current, err := d.MasterKeys()
	if err != nil {
		return nil, err
	}
	links, err := checkout.NewLinks(keys, current)
	if err != nil {
		return nil, err
	}
	own := filepath.Join(tmp, "projections.db")
	err = datadir.CopyFile(d.Projections(), own, func(w io.Writer, _ int64) io.Writer { return w })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("copying the projections of a directory that cannot be written to: %w", err)
	}
	views, signed, err := checkpoints.Open(ctx, d,
		checkpoints.Options{Store: store, Key: signer, Log: zerolog.New(io.Discard), Now: time.Now, ReadOnly: true},
		projections.Config{Path: own, Store: store, Codec: eventstore.NewCodec(), LogID: store.LogID(), Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &reading{store: store, views: views, signed: signed, links: links, stopViews: stop, viewsDone: make(chan error, 1)}
	go func() { r.viewsDone <- views.Run(runCtx) }()
	signed.Begin()
	return r, nil
}

func (r *reading) close() error {
	r.signed.Finish()
	r.stopViews()
	<-r.viewsDone //nolint:errcheck // only this process needed the unwritten rows
	return errors.Join(r.views.Close(), r.store.Close(), r.signed.Failure())
}

// config is for an admin interface that is only used to read.
func (r *reading) config() httpadmin.Config {
	return httpadmin.Config{Log: zerolog.New(io.Discard), Config: merchant.Config{
		Ledger:     eventstore.Ledger{Store: r.store, Codec: eventstore.NewCodec()},
		Views:      r.views,
		Links:      r.links,
		IDs:        domain.NewIDs(time.Now, rand.Reader, domain.ID{}),
		Checkpoint: r.signed.Checkpoint,
		PublicURL:  "http://payledger",
		Stopping:   context.Background(),
	}}
}

// readingAdmin serves the admin interface of a read-only directory to this
// process.
func readingAdmin(ctx context.Context, d datadir.Dir, o CoreOptions, stderr io.Writer, why string) (*cli.Client, error) {
	tmp, err := os.MkdirTemp("", "payledger")
	if err != nil {
		return nil, err
	}
	r, err := openForReading(ctx, d, o, tmp)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(tmp))
	}
	fmt.Fprintf(stderr, "payledger: %s %s, so it is only read, and no new checkpoint is signed\n", d, why)
	handler, err := httpadmin.New(r.config())
	return serveAdmin(datadir.Dir(tmp), handler, err, func() error { return errors.Join(r.close(), os.RemoveAll(tmp)) })
}
