package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"payledger/eventstore/boltfile"
)

const markForm = "payledger lanes mark 1 "

// readMark reads the epoch that the lane file was last used with. If there is no
// mark, or none that can be read, that is the zero epoch, which no file has.
func readMark(path string) (epoch, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return epoch{}, fmt.Errorf("reading the mark of the lane file: %w", err)
	}
	text, ok := strings.CutPrefix(strings.TrimSuffix(string(raw), "\n"), markForm)
	e, err := hex.DecodeString(text)
	if !ok || err != nil || len(e) != len(epoch{}) {
		return epoch{}, nil //nolint:nilerr // then the lane file is not trusted
	}
	return epoch(e), nil
}

// writeMark replaces the mark and syncs it. An existing one is overwritten in
// place, which works on a full disk too; it is shorter than a sector, and a torn
// one would only move the lane file aside.
func writeMark(path string, e epoch) error {
	text := markForm + hex.EncodeToString(e[:]) + "\n"
	info, err := os.Stat(path)
	if err == nil && info.Size() == int64(len(text)) {
		err = writeSynced(path, os.O_WRONLY, text)
	} else {
		tmp := path + ".new"
		err = writeSynced(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, text)
		if err == nil {
			err = os.Rename(tmp, path)
		}
		if err == nil {
			err = boltfile.SyncDir(filepath.Dir(path))
		}
	}
	if err != nil {
		return fmt.Errorf("writing the mark of the lane file: %w", err)
	}
	return nil
}

func writeSynced(path string, flag int, text string) error {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}
