package boltfile

import (
	"context"

	bbolt "go.etcd.io/bbolt"
)

// Check looks at the file as it is at one moment, while it is used. As long as
// that takes, no page that was in use at that moment is written over: so
// damage is found before a wrong number makes bbolt reuse what it must not,
// and the file grows by what is replaced meanwhile. What is wrong is a
// *DamagedError.
func (f *File) Check(c Check) error {
	for {
		tx, err := f.Begin()
		if err != nil {
			return err
		}
		m, known := f.stateOf(tx)
		if known {
			err = c.Run(f.file, m)
		}
		f.End(tx)
		if known {
			return err
		}
	}
}

// stateOf finds the state that a transaction reads. It is written over by the
// second commit after it.
func (f *File) stateOf(tx *bbolt.Tx) (Meta, bool) {
	for _, at := range [...]int64{0, f.second} {
		if m, ok := readMeta(f.file, at); ok && m.Transaction == uint64(tx.ID()) {
			return m, true
		}
	}
	return Meta{}, false
}

// CheckAgain runs bbolt's own check, which must not run beside a writer, on a
// file that Check found to be sound: bbolt follows damage wherever it leads.
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
