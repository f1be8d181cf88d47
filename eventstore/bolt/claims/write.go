package claims

import (
	"encoding/binary"
	"errors"
	"iter"
	"os"
	"path/filepath"

	"payledger/eventstore/boltfile"
)

// unfinished ends the names of tables that are being written.
const unfinished = ".part"

// errStopped: the index was closed while a table was being written.
var errStopped = errors.New("the index of claims was closed")

// writeTable writes a table of at most maxEntries entries. It gets its name only
// when it is complete and synced.
func writeTable(
	dir string, s span, maxEntries int, entries iter.Seq2[entry, error], stop <-chan struct{},
) (_ *table, err error) {
	path := filepath.Join(dir, s.name())
	f, err := os.OpenFile(path+unfinished, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(path + unfinished)
		}
	}()
	w := &writer{file: f, at: blockSize, filter: newFilter(maxEntries), stop: stop}
	for e, err := range entries {
		if err == nil {
			err = w.add(e)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := w.finish(s); err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	if err := os.Rename(path+unfinished, path); err != nil {
		return nil, err
	}
	if err := boltfile.SyncDir(dir); err != nil {
		return nil, err
	}
	return openTable(path, s.log)
}

// writer fills blocks and writes many of them at once.
type writer struct {
	file    *os.File
	at      int64  // where the next write goes
	blocks  []byte // complete, not written yet
	block   []byte // the one that is being filled
	entries uint64
	filter  filter
	stop    <-chan struct{}
}

func (w *writer) add(e entry) error {
	w.block = append(w.block, e.name[:]...)
	w.block = binary.BigEndian.AppendUint64(w.block, e.at)
	w.entries++
	w.filter.add(e.name)
	if len(w.block) == blockEntries*entrySize {
		return w.endBlock(writeSize)
	}
	return nil
}

// sealed fills a block with zeros and appends its checksum.
func sealed(b []byte) []byte {
	b = append(b, make([]byte, blockData-len(b))...)
	return binary.BigEndian.AppendUint32(b, boltfile.Sum(b))
}

// endBlock completes the block that is being filled. Once at least this many bytes are complete,
// they are written and synced.
func (w *writer) endBlock(least int) error {
	if len(w.block) > 0 {
		w.blocks = append(w.blocks, sealed(w.block)...)
		w.block = w.block[:0]
	}
	if len(w.blocks) < least {
		return nil
	}
	select {
	case <-w.stop:
		return errStopped
	default:
	}
	if _, err := w.file.WriteAt(w.blocks, w.at); err != nil {
		return err
	}
	w.at += int64(len(w.blocks))
	w.blocks = w.blocks[:0]
	return w.file.Sync()
}

// finish writes the filter, and the first block last.
func (w *writer) finish(s span) error {
	if err := w.endBlock(writeSize); err != nil {
		return err
	}
	for _, block := range w.filter {
		w.block = append(w.block, block...)
		if err := w.endBlock(writeSize); err != nil {
			return err
		}
	}
	if err := w.endBlock(0); err != nil {
		return err
	}
	head := append([]byte(magic), s.log[:]...)
	head = binary.BigEndian.AppendUint64(head, s.from)
	head = binary.BigEndian.AppendUint64(head, s.to)
	head = append(head, s.event[:]...)
	head = binary.BigEndian.AppendUint64(head, w.entries)
	head = binary.BigEndian.AppendUint64(head, uint64(len(w.filter)))
	if _, err := w.file.WriteAt(sealed(head), 0); err != nil {
		return err
	}
	return w.file.Sync()
}
