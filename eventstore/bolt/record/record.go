// Package record is the format of a record in the event log: bytes with a checksum, which can be
// verified in any file. Numbers are big-endian.
//
// A record at position p is
//
//	offset  bytes
//	0       4      CRC-32C (Castagnoli) of p as 8 bytes and of bytes 4 to the end
//	4       1      format of the record, 3
//	5       1      flags: bit 0, an idempotency key follows; bit 1, the body is
//	               compressed; bit 2, the stream is a payment's, named by two ids; bit 3, a
//	               permanent claim follows, never with bit 0; bit 4, it was written with
//	               details; bit 5, it erases the details of its stream; all others 0
//	6       16     event id
//	22      …      sequence within the stream, from 1, as a varint
//	…       …      how many positions before p the stream's record before this one
//	               is, 0 for the first, as a varint
//	…       64     with bit 0: idempotency key (32), fingerprint (32)
//	…       32     with bit 3: the key that is claimed permanently
//	…       32     with bit 2: the project's id without "prj_" (16), the payment's (16)
//	…       1+n    else: project: its length in bytes, then the bytes
//	…       1+n          kind, likewise
//	…       1+n          id, likewise
//	…       rest   body, at least one byte
//
// With bit 4 it is stored with its details behind it, or with two zero bytes once they are erased.
//
// Varints are those of encoding/binary, unsigned. A compressed body is the
// CRC-32C of the body (4), and then one block in the format S2, which is made
// with a dictionary. What is hashed, exported and published is always the body
// itself.
//
// A payment of five events takes 2.0 KiB in the log, and 3.3 KiB with plain
// bodies. Compressing costs a microsecond of CPU for each event, twice that in a
// busy server, and decompressing 0.15: go test -bench Record ./eventstore/bolt/record.
// So bodies of less than 256 bytes are left plain.
package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"payledger/domain"
	"payledger/eventstore"
)

const (
	format = 3

	flagClaim      = 1
	flagCompressed = 2 // the body is compressed
	flagPayment    = 4 // the stream is named by two ids
	flagForever    = 8 // the claim is permanent
	flagDetails    = 16
	flagErases     = 32

	fixedSize   = 22
	claimSize   = 64
	foreverSize = 32
	idSize      = len(domain.ID{})

	projectPrefix = "prj_"

	allFlags = flagClaim | flagCompressed | flagPayment | flagForever | flagDetails | flagErases

	// MaxSize is more bytes than any record has.
	MaxSize = fixedSize + 2*binary.MaxVarintLen64 + claimSize + 3*(1+eventstore.MaxName) + binary.MaxVarintLen64 + 4 + eventstore.MaxBody
)

// checksum is CRC-32C over the position and the bytes, so that a record at another position is
// noticed too.
func checksum(p eventstore.Position, b []byte) uint32 {
	return crc32.Update(^begin(p), crc32.MakeTable(crc32.Castagnoli), b)
}

// begin is the register of the CRC after the position. crc32.Update would allocate its bytes on the
// heap.
func begin(p eventstore.Position) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := ^uint32(0)
	for shift := 56; shift >= 0; shift -= 8 {
		sum = table[byte(sum)^byte(p>>shift)] ^ sum>>8
	}
	return sum
}

// Append appends the record as it is stored, with its details.
func Append(b []byte, r *eventstore.Stored) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, format, 0)
	flags := len(b) - 1
	if r.Details != nil {
		b[flags] |= flagDetails
	}
	if r.Erases {
		b[flags] |= flagErases
	}
	b = append(b, r.Commit[:]...)
	b = binary.AppendUvarint(b, r.Sequence)
	b = binary.AppendUvarint(b, backBy(r))
	switch {
	case r.Claim == nil:
	case r.Claim.Forever:
		b[flags] |= flagForever
		b = append(b, r.Claim.Key[:]...)
	default:
		b[flags] |= flagClaim
		b = append(b, r.Claim.Key[:]...)
		b = append(b, r.Claim.Fingerprint[:]...)
	}
	if project, id, ok := paymentNames(r.Stream); ok {
		b[flags] |= flagPayment
		b = append(append(b, project[:]...), id[:]...)
	} else {
		for _, name := range [...]string{r.Stream.Project, r.Stream.Kind, r.Stream.ID} {
			b = append(append(b, byte(len(name))), name...)
		}
	}
	if compressed, ok := compress(b, r.Body); ok {
		b = compressed
		b[flags] |= flagCompressed
	} else {
		b = append(b, r.Body...)
	}
	binary.BigEndian.PutUint32(b[start:], checksum(r.Position, b[start+4:]))
	if r.Details != nil {
		b = AppendDetails(b, r.Position, r.Details)
	}
	return b
}

// backBy is the distance to the record before this one in its stream, 0 for none.
func backBy(r *eventstore.Stored) uint64 {
	if r.Prev == 0 {
		return 0
	}
	return uint64(r.Position - r.Prev)
}

// paymentNames are the ids that name a payment's stream.
func paymentNames(s eventstore.Stream) (project, id domain.ID, ok bool) {
	name, ok := strings.CutPrefix(s.Project, projectPrefix)
	if !ok || s.Kind != eventstore.KindPayment {
		return project, id, false
	}
	if project, ok = domain.ParseID(name); ok {
		id, ok = domain.ParseID(s.ID)
	}
	return project, id, ok
}

// Decoder reads records one after the other. What it returns stays valid: bodies are allocated in
// blocks. The zero value is ready.
type Decoder struct {
	Bodiless bool // bodies and details are left out; bodies are unread

	block     []byte
	blockSize int
	project   domain.ID // the last one, and its name
	named     string
}

// maxBlock bounds the memory that one body keeps from being freed.
const maxBlock = 64 << 10

// Decode reads the record at position p as it is stored. The error is an
// *eventstore.CorruptError.
func Decode(p eventstore.Position, b []byte) (eventstore.Stored, error) {
	return new(Decoder).Decode(p, b)
}

// Decode is the function Decode.
func (d *Decoder) Decode(p eventstore.Position, b []byte) (eventstore.Stored, error) {
	b, details := Split(b)
	r, err := d.parse(p, b)
	if err == nil && len(details) > 0 {
		if details, err = decodeDetails(p, details); !d.Bodiless {
			r.Details = bytes.Clone(details)
		}
	}
	if err != nil {
		return eventstore.Stored{}, &eventstore.CorruptError{Position: p, Reason: err.Error()}
	}
	return r, nil
}

var errShort = errors.New("it is shorter than its header says")

func (d *Decoder) parse(p eventstore.Position, b []byte) (r eventstore.Stored, err error) {
	if len(b) < fixedSize {
		return r, errShort
	}
	if want, got := binary.BigEndian.Uint32(b), checksum(p, b[4:]); got != want {
		return r, fmt.Errorf("its checksum is %08x, stored was %08x", got, want)
	}
	flags := b[5]
	if b[4] != format || flags&^allFlags != 0 {
		return r, fmt.Errorf("unknown record format %d, flags %#x: written by a newer program?", b[4], flags)
	}
	r.Position, r.Commit = p, domain.ID(b[6:fixedSize])
	r.At, r.Erases = domain.IDTime(r.Commit).Time(), flags&flagErases != 0
	rest := b[fixedSize:]
	var back uint64
	for _, n := range [...]*uint64{&r.Sequence, &back} {
		if *n, rest, err = number(rest); err != nil {
			return r, err
		}
	}
	if back >= uint64(p) && back != 0 {
		return r, errors.New("the record before it would be before the first")
	}
	if back > 0 {
		r.Prev = p - eventstore.Position(back)
	}
	switch flags & (flagClaim | flagForever) {
	case flagClaim:
		if len(rest) < claimSize {
			return r, errShort
		}
		r.Claim = &eventstore.Claim{Key: domain.Digest(rest), Fingerprint: domain.Digest(rest[32:])}
		rest = rest[claimSize:]
	case flagForever:
		if len(rest) < foreverSize {
			return r, errShort
		}
		r.Claim = &eventstore.Claim{Key: domain.Digest(rest), Forever: true}
		rest = rest[foreverSize:]
	case flagClaim | flagForever:
		return r, errors.New("it has two claims")
	}
	if rest, err = d.names(&r.Stream, rest, flags&flagPayment != 0); err != nil || d.Bodiless {
		return r, err
	}
	err = d.body(&r, rest, flags&flagCompressed != 0)
	return r, err
}

func number(b []byte) (n uint64, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 {
		return 0, nil, errShort
	}
	return n, b[size:], nil
}

func (d *Decoder) names(s *eventstore.Stream, b []byte, payment bool) (rest []byte, err error) {
	if payment {
		if len(b) < 2*idSize {
			return nil, errShort
		}
		if project := domain.ID(b); project != d.project || d.named == "" {
			d.project, d.named = project, projectPrefix+project.String()
		}
		*s = eventstore.Stream{Project: d.named, Kind: eventstore.KindPayment, ID: domain.ID(b[idSize:]).String()}
		return b[2*idSize:], nil
	}
	for _, name := range [...]*string{&s.Project, &s.Kind, &s.ID} {
		if len(b) == 0 || len(b) < 1+int(b[0]) {
			return nil, errShort
		}
		n := 1 + int(b[0])
		*name, b = string(b[1:n]), b[n:]
	}
	return b, nil
}

// body reads the rest of a record.
func (d *Decoder) body(r *eventstore.Stored, b []byte, compressed bool) (err error) {
	switch {
	case compressed:
		r.Body, err = decompress(b, d.alloc)
	case len(b) == 0:
		err = errShort
	default:
		r.Body = append(d.alloc(len(b)), b...)
	}
	d.took(len(r.Body))
	return err
}

// alloc returns an empty slice with a capacity of n bytes. A block grows with what was read, so
// that one record alone takes no more than it needs.
func (d *Decoder) alloc(n int) []byte {
	if cap(d.block)-len(d.block) < n {
		d.blockSize = min(2*d.blockSize+n, maxBlock)
		d.block = make([]byte, 0, max(n, d.blockSize))
	}
	at := len(d.block)
	return d.block[at : at : at+n]
}

// Reuse gives the memory of the last bodies to the next ones: the former become invalid.
func (d *Decoder) Reuse() { d.block = d.block[:0] }

func (d *Decoder) took(n int) { d.block = d.block[:len(d.block)+n] }
