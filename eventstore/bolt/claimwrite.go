package bolt

import (
	"encoding/binary"
	"errors"
	"iter"
	"os"
	"path/filepath"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// unfinished ends the names of runs that are being written.
const unfinished = ".part"

// writeRun writes a run, which takes its name only when it is complete and
// synced. Entries, of which there are so many at most, of records before floor
// are left out.
func writeRun(
	dir string, s runSpan, floor eventstore.Position, most int, entries iter.Seq2[claimEntry, error], stop <-chan struct{},
) (_ *run, err error) {
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
	w := &runWriter{file: f, at: runBlock, filter: newFilter(most), stop: stop}
	for e, err := range entries {
		if err == nil && e.at >= floor {
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
	return openRun(path, s.kind)
}

// runWriter fills blocks and writes them in bursts.
type runWriter struct {
	file    *os.File
	at      int64 // in the file
	burst   []byte
	block   []byte
	entries uint64
	filter  filter
	stop    <-chan struct{}
}

var errRunStopped = errors.New("the writing of a run was given up")

func (w *runWriter) add(e claimEntry) error {
	w.block = append(w.block, e.name[:]...)
	w.block = binary.BigEndian.AppendUint64(w.block, uint64(e.at))
	w.entries++
	w.filter.mark(e.name)
	if len(w.block) == runPerBlock*runEntry {
		return w.flush(runBurst)
	}
	return nil
}

// sealBlock fills a block up and appends its checksum.
func sealBlock(b []byte) []byte {
	b = append(b, make([]byte, runSum-len(b))...)
	return binary.BigEndian.AppendUint32(b, blockSum(b))
}

// flush ends the block; so many bytes are written and synced.
func (w *runWriter) flush(most int) error {
	if len(w.block) > 0 {
		w.burst = append(w.burst, sealBlock(w.block)...)
		w.block = w.block[:0]
	}
	if len(w.burst) < most {
		return nil
	}
	select {
	case <-w.stop:
		return errRunStopped
	default:
	}
	if _, err := w.file.WriteAt(w.burst, w.at); err != nil {
		return err
	}
	w.at += int64(len(w.burst))
	w.burst = w.burst[:0]
	return w.file.Sync()
}

func (w *runWriter) finish(s runSpan) error {
	if err := w.flush(runBurst); err != nil {
		return err
	}
	for _, block := range w.filter {
		w.block = append(w.block, block...)
		if err := w.flush(runBurst); err != nil {
			return err
		}
	}
	if err := w.flush(0); err != nil {
		return err
	}
	head := append([]byte(s.magic()), s.log[:]...)
	head = binary.BigEndian.AppendUint64(head, uint64(s.from))
	head = binary.BigEndian.AppendUint64(head, uint64(s.to))
	head = append(head, s.event[:]...)
	head = binary.BigEndian.AppendUint64(head, w.entries)
	head = binary.BigEndian.AppendUint64(head, uint64(len(w.filter)))
	if _, err := w.file.WriteAt(sealBlock(head), 0); err != nil {
		return err
	}
	return w.file.Sync()
}
