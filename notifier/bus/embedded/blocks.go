package embedded

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The form of a block of messages, as nats-server writes it: records, each with
// its length, sequence, time and the length of its subject in little endian.
const (
	blockSuffix  = ".blk"
	recordHeader = 4 + 8 + 8 + 2
	hasHeadersOf = uint32(1) << 31 // a flag in the length
	recordFlags  = uint64(3) << 62 // in the sequence: deleted, or the mark of a deletion
)

const (
	// maxSequenceGap is more than the messages of one block, and so more than can
	// be deleted between two of them.
	maxSequenceGap = 1 << 22
	// maxBlocksRead bounds the bytes that one start reads of a stream's blocks.
	maxBlocksRead = 256 << 20
)

// dropMisleadingIndexes deletes the index of each stream of dir that has a
// block whose sequences leap. With the index, nats-server 2.15 trusts such a block
// and notes each sequence that the leap left out: one wrong bit takes all memory.
// Without it, the server checks the checksum of every message. The newest
// maxBlocksRead of a stream are looked at. The streams with a leap are returned.
func dropMisleadingIndexes(dir string) (streams []string, err error) {
	found, err := filepath.Glob(filepath.Join(dir, "*", "*", "streams", "*", messagesDir))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, messages := range found {
		leaps, err := hasLeap(messages)
		if leaps {
			streams = append(streams, filepath.Base(filepath.Dir(messages)))
			err = os.Remove(filepath.Join(messages, indexFile))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return streams, errors.Join(errs...)
}

// hasLeap reads the blocks of a directory, the newest first.
func hasLeap(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	number := func(e fs.DirEntry) uint64 {
		n, _ := strconv.ParseUint(strings.TrimSuffix(e.Name(), blockSuffix), 10, 64)
		return n
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(number(b), number(a)) })
	left := int64(maxBlocksRead)
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), blockSuffix) {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return false, err
		}
		r := &io.LimitedReader{R: f, N: left}
		leaps := leap(r)
		_ = f.Close() // it was only read
		if left = r.N; leaps || left <= 0 {
			return leaps, nil
		}
	}
	return false, nil
}

// leap reports whether the sequences of a block leap. It reads up to the first
// record that is cut off or has an impossible length: there, nats-server stops too.
func leap(block io.Reader) bool {
	r := bufio.NewReaderSize(block, 1<<16)
	var header [recordHeader]byte
	for last := uint64(0); ; {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return false
		}
		length := binary.LittleEndian.Uint32(header[:]) &^ hasHeadersOf
		if length < recordHeader {
			return false
		}
		if _, err := r.Discard(int(length) - recordHeader); err != nil {
			return false
		}
		flagged := binary.LittleEndian.Uint64(header[4:])
		seq := flagged &^ recordFlags
		switch marksDeletion := flagged&(1<<62) != 0; {
		case marksDeletion || seq <= last:
		case last != 0 && seq-last > maxSequenceGap:
			return true
		default:
			last = seq
		}
	}
}
