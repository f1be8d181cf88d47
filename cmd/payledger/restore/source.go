package restore

import (
	"context"
	"errors"
	"fmt"
	"io"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/export"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// source is a log to restore: a backup, or what was collected from one or more
// sources.
type source struct {
	log   domain.ID
	last  eventstore.Position
	write func(ctx context.Context, to string) error // makes a new ledger.db with the whole log
	close func() error

	collected *collected // nil for a backup
}

// open opens what is to be restored. A single backup is copied as it is; other sources are read
// event by event.
func (o Options) open(ctx context.Context, pack datadir.KeyPack) (source, error) {
	bundle, err := export.OpenBundle(o.File)
	switch {
	case err != nil:
		return source{}, err
	case bundle != nil, export.IsJSONLines(o.File), isJetStream(o.File), o.File == Events, len(o.Then) > 0, o.Until > 0:
		return collect(ctx, o, pack)
	case len(o.Checkpoints)+len(o.VerifierKeys) > 0:
		return source{}, cli.Errorf(cli.ExitUsage, "--checkpoint and --verifier-key prove an export; check a backup with \"payledger verify\"")
	}
	return openBackup(ctx, o.File, o.Stderr)
}

func openBackup(ctx context.Context, file string, stderr io.Writer) (s source, err error) {
	backup, err := bolt.OpenReadOnly(file)
	if err != nil {
		return s, refuseFile(file, err)
	}
	// The backup stays locked while it is copied.
	s = source{log: backup.LogID(), close: backup.Close}
	if s.last, err = backup.Last(ctx); err != nil {
		return s, errors.Join(err, backup.Close())
	}
	s.write = func(_ context.Context, to string) error {
		err := datadir.CopyFile(file, to, func(w io.Writer, size int64) io.Writer { return cli.CopyProgress(w, stderr, s.last, size) })
		if err != nil {
			return fmt.Errorf("copying the backup: %w", err)
		}
		return nil
	}
	return s, nil
}
