package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/klauspost/compress/s2"

	"payledger/eventstore"
)

// dictionaryText is text that bodies have in common: one line of each event that most payments
// have. It may never change within a format of the record.
const dictionaryText = `"reason":"provider","signal":{"route":"sandbox","outcome":"failed","reference":"` +
	`{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"payment.route_assigned","version":1,"project":"prj_01M7W70000M8T4R7B5N0C1D2E3","kind":"payment","stream":"01M7W78FJBM8T4R7B5N0C1D2E3","sequence":2,"at":"2026-11-20T10:15:30.400Z","data":{"route":"sandbox"}}` +
	`{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"payment.expired","version":1,"project":"prj_01M7W70000M8T4R7B5N0C1D2E3","kind":"payment","stream":"01M7W78FJBM8T4R7B5N0C1D2E3","sequence":3,"at":"2026-11-20T10:15:30.400Z","data":{"reason":"deadline"}}` +
	`{"id":"01M7W9XM20C2S9D4W6Y8Z1M3P5","type":"refund.created","version":1,"project":"prj_01M7W70000M8T4R7B5N0C1D2E3","kind":"payment","stream":"01M7W78FJBM8T4R7B5N0C1D2E3","sequence":4,"at":"2026-11-20T11:02:00.000Z","data":{"refund_id":"01M7W9XM20C2S9D4W6Y8Z1M3P5","created_at":"2026-11-20T11:02:00.000Z","amount":"1500.00","currency":"RUB","idempotency":{"key":"` +
	`{"id":"01M7WA0000Q6V8B0N5R7T2M4C6","type":"refund.succeeded","version":1,"project":"prj_01M7W70000M8T4R7B5N0C1D2E3","kind":"payment","stream":"01M7W78FJBM8T4R7B5N0C1D2E3","sequence":5,"at":"2026-11-20T11:02:00.400Z","data":{"refund_id":"01M7W9XM20C2S9D4W6Y8Z1M3P5","signal":{"route":"sandbox","outcome":"succeeded","reference":"sandbox-01M7WA0000Q6V8B0N5R7T2M4C6","refund_id":"01M7W9XM20C2S9D4W6Y8Z1M3P5","amount":"1500.00","currency":"RUB","started_at":"2026-11-20T11:02:00.000Z"}}}` +
	`{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"payment.paid","version":2,"project":"prj_01M7W70000M8T4R7B5N0C1D2E3","kind":"payment","stream":"01M7W78FJBM8T4R7B5N0C1D2E3","sequence":3,"at":"2026-11-20T10:19:02.400Z","data":{"signal":{"route":"sandbox","outcome":"paid","reference":"sandbox-01M7W7EYW0Q6V8B0N5R7T2M4C6","amount":"1500.00","currency":"RUB","started_at":"2026-11-20T10:19:02.000Z"}}}` +
	`{"id":"01M7W78FJBM8T4R7B5N0C1D2E3","type":"payment.created","version":1,"project":"prj_01M7W70000M8T4R7B5N0C1D2E3","kind":"payment","stream":"01M7W78FJBM8T4R7B5N0C1D2E3","sequence":1,"at":"2026-11-20T10:15:30.123Z","data":{"created_at":"2026-11-20T10:15:30.123Z","expires_at":"2026-11-20T11:15:30.123Z","amount":"1500.00","currency":"RUB","description":"order-1042","payload":{},"link":{"base":"https://pay.example.com","key_version":1,"render":1},"idempotency":{"key":"","fingerprint":"`

// dictionary begins with a number that S2 requires and this format leaves at zero.
var dictionary = s2.NewDict([]byte("\x00" + dictionaryText)) //nolint:gochecknoglobals // immutable

// minCompressed is the shortest body that is compressed: encoding costs as much
// for a short one, which saves little.
const minCompressed = 256

// compress appends the compressed body. It returns false if that is not shorter,
// or not worth it.
func compress(to, body []byte) ([]byte, bool) {
	if len(body) < minCompressed {
		return to, false
	}
	start := len(to)
	to = binary.BigEndian.AppendUint32(to, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	at := len(to)
	to = slices.Grow(to, s2.MaxEncodedLen(len(body)))
	block := dictionary.Encode(to[at:cap(to)], body)
	return to[:at+len(block)], at+len(block)-start < len(body)
}

// decompress reads what compress wrote, into memory from alloc.
func decompress(b []byte, alloc func(n int) []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, errShort
	}
	sum, block := binary.BigEndian.Uint32(b), b[4:]
	n, err := s2.DecodedLen(block)
	switch {
	case err != nil:
		return nil, fmt.Errorf("its body cannot be decompressed: %w", err)
	case n == 0 || n > eventstore.MaxBody:
		return nil, fmt.Errorf("its body would have %d bytes", n)
	}
	body, err := dictionary.Decode(alloc(n)[:n], block)
	switch {
	case err != nil:
		return nil, fmt.Errorf("its body cannot be decompressed: %w", err)
	case crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != sum:
		return nil, fmt.Errorf("its body does not match its checksum")
	}
	return body, nil
}
