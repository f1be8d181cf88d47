package datadir

import (
	"context"
	"errors"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// VerifiedFile describes a log's file that was read from end to end.
type VerifiedFile struct {
	Log  domain.ID
	Last eventstore.Position
}

// VerifyFile reads a log that no process writes to from end to end: the
// structure of the file, every record and index, every event. each is called
// with every record, unless it is nil; its error ends the reading.
func VerifyFile(ctx context.Context, path string, progress func(done, total eventstore.Position), each func(eventstore.Stored) error) (_ VerifiedFile, err error) {
	store, err := bolt.OpenReadOnly(path)
	if err != nil {
		return VerifiedFile{}, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p := VerifiedFile{Log: store.LogID()}
	if p.Last, err = store.Last(ctx); err != nil {
		return p, err
	}
	codec := eventstore.NewCodec()
	for r, err := range store.Scan(ctx, 0, eventstore.Filter{}) {
		if err == nil {
			_, err = codec.Decode(r)
		}
		if err == nil && each != nil {
			err = each(r)
		}
		if err != nil {
			return p, err
		}
		progress(r.Position, p.Last)
	}
	return p, store.Verify(ctx)
}
