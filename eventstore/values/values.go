// Package values is the binary form of values, in files and in memory.
package values

import (
	"encoding/binary"
	"errors"
)

// AppendText appends the length of a text or bytes as a varint, and the bytes.
func AppendText[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// AppendUint64 and ParseUint64 are the form of a value that is one number.
func AppendUint64[T ~uint64](b []byte, n T) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(n))
}

// ParseUint64 reads what AppendUint64 wrote.
func ParseUint64[T ~uint64](b []byte) (T, error) {
	if len(b) != 8 {
		return 0, ErrLength
	}
	return T(binary.BigEndian.Uint64(b)), nil
}

// ErrLength: a value does not have the length of its form.
var ErrLength = errors.New("wrong length")

// Decoder reads a value from its beginning. Reading beyond its end yields zero, and then End
// returns an error.
type Decoder struct {
	rest  []byte
	short bool
}

// Decode begins to read a value.
func Decode(b []byte) Decoder { return Decoder{rest: b} }

// Bytes reads n bytes; nil when there are not as many. They are part of the
// value.
func (d *Decoder) Bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.rest, d.short = nil, true
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// Text reads what AppendText wrote.
func (d *Decoder) Text() []byte { return d.Bytes(d.Uint()) }

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if b := d.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Int reads a signed varint.
func (d *Decoder) Int() int64 {
	n, size := binary.Varint(d.rest)
	d.Bytes(uint64(max(size, 0)))
	d.short = d.short || size <= 0
	return n
}

// Uint reads an unsigned varint.
func (d *Decoder) Uint() uint64 {
	n, size := binary.Uvarint(d.rest)
	d.Bytes(uint64(max(size, 0)))
	d.short = d.short || size <= 0
	if size <= 0 {
		return 0
	}
	return n
}

// Fail makes End return an error.
func (d *Decoder) Fail() { d.short = true }

// End returns an error unless everything was read and nothing was missing.
func (d *Decoder) End() error {
	if d.short || len(d.rest) > 0 {
		return ErrLength
	}
	return nil
}
