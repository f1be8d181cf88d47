package boltfile

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
