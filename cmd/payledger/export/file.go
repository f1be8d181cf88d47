package export

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"payledger/eventstore"
)

const exportBuffer = 1 << 18

func newBufferedWriter(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, exportBuffer) }

// ToFile writes the export to a file and syncs it. Without resume the file
// must not exist. With it, what the file holds from its last block on is
// compared with what the log says must stand there, and the export goes on
// behind it: the result is, byte for byte, the file that an uninterrupted
// export writes.
func (x *Pass) ToFile(ctx context.Context, name string, resume bool) (done Done, err error) {
	flags := os.O_RDWR | os.O_CREATE
	if !resume {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if errors.Is(err, os.ErrExist) {
		return done, fmt.Errorf("%s exists: go on with it by --resume, or choose another name", name)
	}
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	foreign := fmt.Errorf("%s is not an export of this log with these flags: choose another name", name)
	end, err := x.findEnd(f)
	switch {
	case errors.Is(err, errNoExport):
		return done, foreign
	case err != nil:
		return done, err
	case end.position > x.last:
		return done, fmt.Errorf("%s goes up to position %d, but the log ends at %d: it is an export of another log, or this one has lost events", name, end.position, x.last)
	}
	at := end.start + int64(len(end.rest))
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return done, err
	}
	out := newBufferedWriter(f)
	known := false // what the file holds is the log's
	write := func(b []byte) error {
		n := min(len(end.rest), len(b))
		if !bytes.Equal(end.rest[:n], b[:n]) {
			return foreign
		}
		if end.rest = end.rest[n:]; len(end.rest) == 0 && !known {
			known = true
			if err := f.Truncate(at); err != nil { // what a power cut left
				return err
			}
		}
		_, err := out.Write(b[n:])
		return err
	}
	after := x.after
	if end.position > 0 {
		after, done.Resumed = end.position-1, end.position
	} else if err := write([]byte(x.format.header())); err != nil {
		return done, err
	}
	done.Events, err = x.write(ctx, after, write)
	if err == nil && len(end.rest) > 0 {
		err = foreign
	}
	if done.Resumed > 0 && done.Events > 0 {
		done.Events-- // the one that was read again
	}
	done.Position = max(x.last, x.after)
	return done, errors.Join(err, out.Flush(), f.Sync())
}

// fileEnd is the end of a file: the last block and what follows it.
type fileEnd struct {
	position eventstore.Position // of the last block; 0 when there is none
	start    int64               // where it begins
	rest     []byte              // from there to the end of the file
}

// maxBlock bounds what one event adds to a file, and a part of another one.
const maxBlock = 1 << 20

var errNoExport = errors.New("not an export")

// findEnd reads a file of this format to its end, or to the zero bytes that a
// power cut may leave.
func (x *Pass) findEnd(f io.Reader) (end fileEnd, err error) {
	in := bufio.NewReaderSize(f, exportBuffer)
	for {
		line, err := in.ReadSlice('\n')
		line, _, zeros := bytes.Cut(line, []byte{0})
		whole := err == nil && !zeros
		if whole {
			switch p := x.format.reread(line[:len(line)-1]); {
			case p == 0 || p == end.position:
			case p < end.position:
				return end, errNoExport
			default:
				end.position = p
				end.start += int64(len(end.rest))
				end.rest = end.rest[:0]
			}
		}
		if end.rest = append(end.rest, line...); len(end.rest) > maxBlock {
			return end, errNoExport
		}
		switch {
		case whole, errors.Is(err, bufio.ErrBufferFull) && !zeros:
		case err == nil, errors.Is(err, io.EOF), zeros:
			return end, nil
		default:
			return end, err
		}
	}
}
