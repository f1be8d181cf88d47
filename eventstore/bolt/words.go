package bolt

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"payledger/domain"
	"payledger/eventstore"
)

// A body is a line of JSON whose members' names, ids and times are mostly
// known from the record's header or the same in every event. In short form
// each byte below 32, which such a line has none of, stands for a phrase:
//
//	1      {"id":" event id ","type":"
//	2      ","version": 2 with a claim for ever, else 1 ,"project":" project
//	       ","kind":" kind ","stream":" id ","sequence": sequence ,"at":" time of
//	       the event id ","data":{"
//	3      the time of the event id, as 2 has it
//	4      its day: the first 11 bytes of 3
//	5      ,"idempotency":{"key":" in hexadecimal ","fingerprint":" likewise "}
//	       of the claim, nothing without one or with one for ever
//	6      the first 6 characters of the event id
//	7…31   the words below, in their order
//
// Any other byte stands for itself.
const (
	codeOpening = 1 + iota
	codeAddress
	codeTime
	codeDay
	codeClaim
	codeStamp
	codeWords

	codes = 32
)

// words may never change within a format of the record. Of two that begin
// alike the longer one comes first.
var words = [codes - codeWords]string{ //nolint:gochecknoglobals // immutable
	`payment.`, `route_assigned`, `refund_id":"`, `refund.`, `created_at":"`, `created`, `succeeded`,
	`","expires_at":"`, `","amount":"`, `","currency":"RUB"`, `,"description":`, `,"payload":{"`, `,"link":{"base":"http`,
	`","key_version":1,"render":1}`, `signal":{"route":"`, `","outcome":"`, `","reference":"`, `","refund_id":"`, `,"started_at":"`,
	`","signal":{"route":"`, `sandbox`, `","created_at":"`, `"}}}`, `.00`, `"reason":"`,
}

// beginning lists the words by their first byte.
var beginning = func() (by [256][]word) { //nolint:gochecknoglobals // immutable
	for i, w := range words {
		at := word{code: byte(codeWords + i)}
		for j := range min(4, len(w)) {
			at.first |= uint32(w[j]) << (8 * j)
			at.mask |= 0xff << (8 * j)
		}
		by[w[0]] = append(by[w[0]], at)
	}
	return by
}()

// word is one of the words, known by its first four bytes if it has as many.
type word struct {
	first, mask uint32
	code        byte
}

// appendPhrase appends what a code below codeWords stands for.
func appendPhrase(b []byte, code byte, r *eventstore.Stored) []byte {
	switch code {
	case codeOpening:
		return append(appendID(append(b, openingID...), r.Commit), `","type":"`...)
	case codeAddress:
		opening := `","version":1,"project":"`
		if r.Claim != nil && r.Claim.Forever {
			opening = `","version":2,"project":"`
		}
		b = append(append(b, opening...), r.Stream.Project...)
		b = append(append(b, `","kind":"`...), r.Stream.Kind...)
		b = append(append(b, `","stream":"`...), r.Stream.ID...)
		b = strconv.AppendUint(append(b, `","sequence":`...), r.Sequence, 10)
		return append(appendTime(append(b, `,"at":"`...), r), `","data":{"`...)
	case codeTime:
		return appendTime(b, r)
	case codeDay:
		n := len(b)
		b = appendTime(b, r)
		return b[:min(n+daySize, len(b))]
	case codeClaim:
		if r.Claim == nil || r.Claim.Forever {
			return b
		}
		b = hex.AppendEncode(append(b, `,"idempotency":{"key":"`...), r.Claim.Key[:])
		b = hex.AppendEncode(append(b, `","fingerprint":"`...), r.Claim.Fingerprint[:])
		return append(b, `"}`...)
	case codeStamp:
		n := len(b)
		return appendID(b, r.Commit)[:n+stampSize]
	}
	return b
}

const (
	daySize   = 11
	stampSize = 6

	openingID = `{"id":"` // before the event id
)

func appendID(b []byte, id domain.ID) []byte {
	var text [26]byte
	_ = id.MarshalTextTo(text[:]) // fails for want of room alone
	return append(b, text[:]...)
}

func appendTime(b []byte, r *eventstore.Stored) []byte {
	b, _ = domain.IDTime(r.Commit).AppendText(b) // never fails
	return b
}

// shorten appends the short form of the record's body. It answers false if
// there is none that is shorter.
func shorten(to []byte, r *eventstore.Stored) ([]byte, bool) {
	var room [512]byte
	var of [codeWords][]byte
	b := room[:0]
	for _, code := range [...]byte{codeOpening, codeAddress, codeTime, codeClaim} {
		n := len(b)
		b = appendPhrase(b, code, r)
		of[code] = b[n:len(b):len(b)]
	}
	of[codeDay] = of[codeTime][:daySize]
	of[codeStamp] = of[codeOpening][len(openingID):][:stampSize]
	start, body := len(to), r.Body
	for i := 0; i < len(body); {
		c, rest := body[i], body[i:]
		// Where each phrase can be found, so that few are looked for.
		var first, last byte = 1, 0
		switch {
		case c < codes:
			return to[:start], false
		case i == 0:
			first, last = codeOpening, codeOpening
		case c == '"':
			first, last = codeAddress, codeAddress
		case c == ',':
			first, last = codeClaim, codeClaim
		case body[i-1] == '"':
			first, last = codeTime, codeDay
			if c == of[codeStamp][0] {
				first, last = codeStamp, codeStamp
			}
		case body[i-1] == '-':
			first, last = codeStamp, codeStamp
		}
		code, n := byte(0), 0
		for ; first <= last && n == 0; first++ {
			if p := of[first]; len(p) > 0 && p[0] == c && bytes.HasPrefix(rest, p) {
				code, n = first, len(p)
			}
		}
		if n == 0 && len(beginning[c]) > 0 {
			code, n = wordAt(rest)
		}
		if n == 0 {
			code, n = c, 1
		}
		to, i = append(to, code), i+n
	}
	return to, len(to)-start < len(body)
}

// wordAt finds the word that the text begins with, if any.
func wordAt(text []byte) (code byte, n int) {
	if len(text) < 4 {
		return 0, 0
	}
	first := binary.LittleEndian.Uint32(text)
	for _, w := range beginning[text[0]] {
		if first&w.mask != w.first {
			continue
		}
		if p := words[w.code-codeWords]; len(text) >= len(p) && string(text[:len(p)]) == p {
			return w.code, len(p)
		}
	}
	return 0, 0
}

// lengthen appends the body whose short form is b, unless it has more bytes
// than that.
func lengthen(to []byte, b []byte, r *eventstore.Stored, most int) ([]byte, bool) {
	most += len(to)
	for len(b) > 0 && len(to) <= most {
		n := 0
		for n < len(b) && b[n] >= codes {
			n++
		}
		to = append(to, b[:n]...)
		if b = b[n:]; len(b) == 0 {
			break
		}
		switch c := b[0]; {
		case c >= codeWords:
			to = append(to, words[c-codeWords]...)
		case c > 0:
			to = appendPhrase(to, c, r)
		default:
			return to, false
		}
		b = b[1:]
	}
	return to, len(to) <= most
}
