package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"payledger/domain/installation"
)

// RestoredNote says that the log was restored, until a server records it.
type RestoredNote struct {
	Actor string                   `json:"actor"`
	Act   installation.LogRestored `json:"act"`
}

// WriteRestored writes the note. It comes before the log that is restored.
func (d Dir) WriteRestored(n RestoredNote) error {
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return WriteFileSynced(d.Restored(), b)
}

// ReadRestored reads the note; false: there is none.
func (d Dir) ReadRestored() (n RestoredNote, ok bool, err error) {
	b, err := os.ReadFile(d.Restored())
	if errors.Is(err, fs.ErrNotExist) {
		return n, false, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil {
		return n, false, fmt.Errorf("%s: %w", d.Restored(), err)
	}
	return n, true, nil
}
