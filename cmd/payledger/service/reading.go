package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/checkpoints"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/eventstore"
	httpadmin "payledger/httpapi/admin"
	"payledger/httpapi/checkout"
	"payledger/httpapi/merchant"
	"payledger/projections"
)

// readOnly is the admin interface of a log that is only read. links and checkpoint may be nil.
func readOnly(l eventstore.Ledger, views *projections.Engine, links *checkout.Links, checkpoint func(context.Context) ([]byte, error)) (http.Handler, error) {
	return httpadmin.New(httpadmin.Config{Log: zerolog.New(io.Discard), Config: merchant.Config{
		Ledger: l, Views: views, Links: links, Checkpoint: checkpoint,
		IDs: domain.NewIDs(time.Now, rand.Reader, domain.ID{}), PublicURL: adminURL, Stopping: context.Background(),
	}})
}

// readDirectory serves the admin interface of a directory that cannot be written to to this process.
// The projections are a copy of the directory's, brought up to the log.
func readDirectory(ctx context.Context, d datadir.Dir, stderr io.Writer, why string) (*cli.Client, error) {
	return serveOwn(func(parts *process.Parts, tmp datadir.Dir) (http.Handler, error) {
		store, err := d.OpenReadOnly()
		if err != nil {
			return nil, err
		}
		parts.Add("event log", process.Part{Stop: store.Close})
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
		err = datadir.CopyFile(d.Projections(), tmp.Projections(), func(w io.Writer, _ int64) io.Writer { return w })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("copying the projections of a directory that cannot be written to: %w", err)
		}
		ledger := eventstore.Ledger{Store: store, Codec: eventstore.NewCodec()}
		views, signed, err := checkpoints.Open(ctx, d,
			checkpoints.Options{Store: store, Key: signer, Log: zerolog.New(io.Discard), Now: time.Now, ReadOnly: true},
			projections.Config{Path: tmp.Projections(), Store: store, Codec: ledger.Codec, LogID: store.LogID(), Progress: cli.Progress(stderr, "Reading the log")})
		if err != nil {
			return nil, err
		}
		parts.Add("projections", process.Part{Stop: views.Close})
		parts.Go("comparison with the newest checkpoint", signed.Compare)
		fmt.Fprintf(stderr, "payledger: %s %s, so it is only read, and no new checkpoint is signed\n", d, why)
		return readOnly(ledger, views, links, signed.Checkpoint)
	})
}
