package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"payledger/domain"
	"payledger/eventstore"
)

const (
	recordFormat = 1
	flagClaim    = 1

	fixedSize = 38
	claimSize = 64
)

// checksum is CRC-32C over the position and the bytes, so that a record that
// stands at another position is noticed too.
func checksum(p eventstore.Position, b []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	var key [8]byte
	binary.BigEndian.PutUint64(key[:], uint64(p))
	return crc32.Update(crc32.Checksum(key[:], table), table, b)
}

// encodeRecord writes the record. r.Body becomes that part of the result that
// holds it, so that nothing of the caller's is kept.
func encodeRecord(r *eventstore.Stored) []byte {
	n := fixedSize + 3 + len(r.Stream.Project) + len(r.Stream.Kind) + len(r.Stream.ID) + len(r.Body)
	if r.Claim != nil {
		n += claimSize
	}
	b := make([]byte, 4, n)
	b = append(b, recordFormat, 0)
	b = append(b, r.Commit[:]...)
	b = binary.BigEndian.AppendUint64(b, r.Sequence)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Prev))
	if r.Claim != nil {
		b[5] |= flagClaim
		b = append(b, r.Claim.Key[:]...)
		b = append(b, r.Claim.Fingerprint[:]...)
	}
	for _, name := range [...]string{r.Stream.Project, r.Stream.Kind, r.Stream.ID} {
		b = append(b, byte(len(name)))
		b = append(b, name...)
	}
	at := len(b)
	b = append(b, r.Body...)
	binary.BigEndian.PutUint32(b, checksum(r.Position, b[4:]))
	r.Body = b[at:len(b):len(b)]
	return b
}

// decodeRecord reads the record at position p. The body is a part of b. The
// error is a *eventstore.CorruptError.
func decodeRecord(p eventstore.Position, b []byte) (eventstore.Stored, error) {
	r, err := parseRecord(p, b)
	if err != nil {
		return eventstore.Stored{}, &eventstore.CorruptError{Position: p, Reason: err.Error()}
	}
	return r, nil
}

var errShort = errors.New("it is shorter than its header says")

func parseRecord(p eventstore.Position, b []byte) (eventstore.Stored, error) {
	if len(b) < fixedSize {
		return eventstore.Stored{}, errShort
	}
	if want, got := binary.BigEndian.Uint32(b), checksum(p, b[4:]); got != want {
		return eventstore.Stored{}, fmt.Errorf("its checksum is %08x, stored was %08x", got, want)
	}
	if b[4] != recordFormat || b[5]&^flagClaim != 0 {
		return eventstore.Stored{}, fmt.Errorf("unknown record format %d, flags %#x: written by a newer program?", b[4], b[5])
	}
	r := eventstore.Stored{
		Position: p,
		Sequence: binary.BigEndian.Uint64(b[22:]),
		Prev:     eventstore.Position(binary.BigEndian.Uint64(b[30:])),
		Commit:   domain.ID(b[6:22]),
	}
	r.At = domain.IDTime(r.Commit).Time()
	rest := b[fixedSize:]
	if b[5]&flagClaim != 0 {
		if len(rest) < claimSize {
			return eventstore.Stored{}, errShort
		}
		r.Claim = &eventstore.Claim{Key: domain.Digest(rest), Fingerprint: domain.Digest(rest[32:])}
		rest = rest[claimSize:]
	}
	for _, name := range [...]*string{&r.Stream.Project, &r.Stream.Kind, &r.Stream.ID} {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) {
			return eventstore.Stored{}, errShort
		}
		n := 1 + int(rest[0])
		*name, rest = string(rest[1:n]), rest[n:]
	}
	if len(rest) == 0 {
		return eventstore.Stored{}, errShort
	}
	r.Body = rest
	return r, nil
}
