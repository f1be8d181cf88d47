package boltfile

import (
	"context"

	bbolt "go.etcd.io/bbolt"
)

// Check checks a snapshot of the file while it is in use. Meanwhile no page of the snapshot is
// overwritten: damage is found before a wrong number makes bbolt reuse a page in use, and the file
// grows by the pages that are replaced. The error for damage is a *DamagedError.
func (f *File) Check(c Check) error {
	for {
		tx, err := f.Begin()
		if err != nil {
			return err
		}
		for _, at := range [...]int64{0, f.second} {
			if m, ok := readMeta(f.file, at); ok && m.Transaction == uint64(tx.ID()) {
				err := c.Run(f.file, m)
				f.End(tx)
				return err
			}
		}
		f.End(tx) // the second commit after it has written over its state
	}
}

// CheckAgain runs bbolt's own check on a file that passed Check. It must not run concurrently with
// a writer, and on a damaged file it may loop or read outside the mapping: so Check comes first.
func (f *File) CheckAgain(ctx context.Context) error {
	return f.View(func(tx *bbolt.Tx) (first error) {
		for err := range tx.Check() {
			if first == nil {
				first = damage("bbolt: %v", err)
			}
		}
		if first == nil {
			first = ctx.Err()
		}
		return first
	})
}
