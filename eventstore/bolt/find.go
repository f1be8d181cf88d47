package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/record"
	"payledger/eventstore/boltfile"
)

// FoundRecord is a record found in the bytes of a file.
type FoundRecord struct {
	Position eventstore.Position
	Offset   int64  // where the record begins
	Size     int    // of the record, in bytes
	Sum      uint32 // its checksum: another record at this position has another one
	// Used: the newest state of the file uses the page. A record on another page is an older copy of
	// one, or of a commit that a crash undid: it may never have been acknowledged.
	Used bool
	// DetailsAt and DetailsSize are where its details are, as they are stored; a size of 0: there are none.
	DetailsAt   int64
	DetailsSize int
}

// FileInfo is what FindRecords finds in a file besides records. What cannot be read is zero.
type FileInfo struct {
	LogID domain.ID
	// Unread is the number of bytes that the disk could not read.
	Unread int64
}

const (
	findWindow = 4 << 20
	findBlock  = 4 << 10
	keySize    = 8
	maxFound   = keySize + record.MaxSize + record.MaxDetailsSize
)

// FindRecords scans a file of any damage for records: at each byte it looks for a key followed by a
// record, as bbolt stores them, and the record's own checksum decides. The same record may be found
// several times. The file is not mapped, and no page number in it is trusted; only records in bytes
// that the disk cannot read are lost. progress is called from time to time with the number of bytes
// done.
func FindRecords(ctx context.Context, f io.ReaderAt, size int64, progress func(done int64), found func(FoundRecord) error) (FileInfo, error) {
	c := finder{used: boltfile.ReadUsed(f)}
	window := make([]byte, min(size, findWindow+maxFound))
	for at := int64(0); at < size; at += findWindow {
		if err := ctx.Err(); err != nil {
			return c.info, err
		}
		progress(at)
		b := window[:min(size-at, findWindow+maxFound)]
		c.info.Unread += fill(f, b, at)
		if err := c.window(b, at, min(findWindow, len(b)), found); err != nil {
			return c.info, err
		}
	}
	progress(size)
	return c.info, nil
}

// ReadFound reads a record that FindRecords has found.
func ReadFound(f io.ReaderAt, c FoundRecord) (eventstore.Stored, error) {
	b := make([]byte, c.Size+c.DetailsSize)
	_, err := f.ReadAt(b[:c.Size], c.Offset)
	if err == nil && c.DetailsSize > 0 {
		_, err = f.ReadAt(b[c.Size:], c.DetailsAt)
	}
	if err != nil {
		return eventstore.Stored{}, &eventstore.CorruptError{Position: c.Position, Reason: err.Error()}
	}
	if record.HasDetails(b) {
		b = binary.BigEndian.AppendUint16(b, uint16(c.DetailsSize))
	}
	return record.Decode(c.Position, b)
}

// fill reads what the disk can read, block by block if it cannot read all, and
// zeros for the rest.
func fill(f io.ReaderAt, b []byte, at int64) (unread int64) {
	if n, _ := f.ReadAt(b, at); n == len(b) {
		return 0
	}
	for from := 0; from < len(b); from += findBlock {
		block := b[from:min(len(b), from+findBlock)]
		if n, _ := f.ReadAt(block, at+int64(from)); n < len(block) {
			clear(block)
			unread += int64(len(block))
		}
	}
	return unread
}

// finder scans a file. skip is the offset where the last record that was found ends.
type finder struct {
	used boltfile.Used
	info FileInfo
	skip int64
}

// window finds the records in b, which is at this offset of the file, that begin in its first
// bytes.
func (c *finder) window(b []byte, at int64, begin int, found func(FoundRecord) error) error {
	c.identify(b)
	for i := max(0, int(c.skip-at)); i < begin; i++ {
		if len(b) < i+keySize {
			break
		}
		// A position is below 2^48, so most bytes begin no key.
		p := eventstore.Position(binary.BigEndian.Uint64(b[i:]))
		if p == 0 || p >= 1<<48 {
			continue
		}
		value, offset := b[i+keySize:min(len(b), i+maxFound)], at+int64(i+keySize)
		n := record.Find(p, value)
		if n == 0 {
			continue
		}
		r := FoundRecord{Position: p, Offset: offset, Size: n, Sum: binary.BigEndian.Uint32(value), Used: c.used.Has(offset)}
		if record.HasDetails(value) {
			r.DetailsAt, r.DetailsSize = offset+int64(n), record.FindDetails(p, value[n:])
		}
		if err := found(r); err != nil {
			return err
		}
		n += r.DetailsSize
		c.skip = offset + int64(n)
		i += keySize + n - 1
	}
	return nil
}

// identify looks for the log's name and id, as the bucket meta has them.
func (c *finder) identify(b []byte) {
	if !c.info.LogID.IsZero() {
		return
	}
	begin := append(bytes.Clone(keyFormat), formatName...)
	i := bytes.Index(b, begin)
	if i < 0 {
		return
	}
	b = b[i+len(keyFormat):]
	n := len(formatName)
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	if id, ok := bytes.CutPrefix(b[n:], keyLog); ok && len(id) >= len(domain.ID{}) {
		c.info.LogID = domain.ID(id)
	}
}
