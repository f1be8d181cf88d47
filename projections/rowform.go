package projections

import (
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore"
)

// The form of a payment's row: its members in the order of the structs, ids as
// their 16 bytes, numbers as varints, texts and lists behind their length as a
// varint, and what may be absent behind a byte 0 or 1.

func appendRow(b []byte, row *paymentRow) ([]byte, error) {
	p := &row.Payment
	b = appendText(b, p.Project)
	b = append(b, p.ID[:]...)
	b = appendText(b, p.Status)
	b = binary.AppendVarint(b, int64(p.Amount))
	b = appendText(b, p.Currency)
	b = appendFlag(b, p.Description != nil)
	if p.Description != nil {
		b = appendText(b, *p.Description)
	}
	b = appendText(b, p.Payload)
	b = binary.AppendVarint(b, int64(p.CreatedAt))
	b = binary.AppendVarint(b, int64(p.ExpiresAt))
	b = appendText(b, p.Link.Base)
	b = binary.AppendVarint(b, int64(p.Link.KeyVersion))
	b = binary.AppendVarint(b, int64(p.Link.Render))
	b = appendText(b, p.Route)
	b = appendText(b, p.FailureReason)
	b = binary.AppendUvarint(b, uint64(len(p.Refunds)))
	for i := range p.Refunds {
		r := &p.Refunds[i]
		b = append(b, r.ID[:]...)
		b = appendText(b, r.Status)
		b = binary.AppendVarint(b, int64(r.Amount))
		b = appendText(b, r.Currency)
		b = binary.AppendVarint(b, int64(r.CreatedAt))
	}
	b = binary.AppendUvarint(b, uint64(len(p.Signals)))
	for i := range p.Signals {
		s := &p.Signals[i]
		b = appendText(b, s.Route)
		b = appendText(b, s.Outcome)
		b = appendText(b, s.Reference)
		b = appendFlag(b, s.RefundID != nil)
		if s.RefundID != nil {
			b = append(b, s.RefundID[:]...)
		}
		b = binary.AppendVarint(b, int64(s.Amount))
		b = appendText(b, s.Currency)
		b = binary.AppendVarint(b, int64(s.StartedAt))
	}
	b = binary.AppendUvarint(b, p.Refused)
	b = binary.AppendUvarint(b, p.LateFunds)
	return binary.AppendUvarint(b, uint64(row.Position)), nil
}

func parseRow(b []byte) (*paymentRow, error) {
	u := unpacking{rest: b}
	row := new(paymentRow)
	p := &row.Payment
	p.Project = string(u.text())
	p.ID = u.id()
	p.Status = domain.PaymentStatus(u.text())
	p.Amount = domain.Amount(u.number())
	p.Currency = currencyOf(u.text())
	if u.flag() {
		d := string(u.text())
		p.Description = &d
	}
	p.Payload = append(p.Payload, u.text()...)
	p.CreatedAt = domain.Instant(u.number())
	p.ExpiresAt = domain.Instant(u.number())
	p.Link = domain.Link{Base: string(u.text()), KeyVersion: int(u.number()), Render: int(u.number())}
	p.Route = string(u.text())
	p.FailureReason = string(u.text())
	for range u.length() {
		p.Refunds = append(p.Refunds, domain.Refund{
			ID: u.id(), Status: domain.RefundStatus(u.text()), Amount: domain.Amount(u.number()), Currency: currencyOf(u.text()),
			CreatedAt: domain.Instant(u.number()),
		})
	}
	for range u.length() {
		s := domain.Signal{Route: string(u.text()), Outcome: domain.Outcome(u.text()), Reference: string(u.text())}
		if u.flag() {
			id := u.id()
			s.RefundID = &id
		}
		s.Amount, s.Currency, s.StartedAt = domain.Amount(u.number()), currencyOf(u.text()), domain.Instant(u.number())
		p.Signals = append(p.Signals, s)
	}
	p.Refused, p.LateFunds = u.length(), u.length()
	row.Position = eventstore.Position(u.length())
	return row, u.end()
}

func appendText[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendFlag(b []byte, set bool) []byte {
	if set {
		return append(b, 1)
	}
	return append(b, 0)
}

// unpacking reads a value from its beginning. What comes behind its end is
// zero, and end tells so.
type unpacking struct {
	rest  []byte
	short bool
}

func (u *unpacking) take(n uint64) []byte {
	if n > uint64(len(u.rest)) {
		u.rest, u.short = nil, true
		return nil
	}
	b := u.rest[:n]
	u.rest = u.rest[n:]
	return b
}

func (u *unpacking) text() []byte { return u.take(u.length()) }

func (u *unpacking) byte() byte {
	if b := u.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (u *unpacking) flag() bool { return u.byte() == 1 }

func (u *unpacking) id() (id domain.ID) {
	copy(id[:], u.take(uint64(idSize)))
	return id
}

func (u *unpacking) number() int64 {
	n, size := binary.Varint(u.rest)
	u.take(uint64(max(size, 0)))
	u.short = u.short || size <= 0
	return n
}

func (u *unpacking) length() uint64 {
	n, size := binary.Uvarint(u.rest)
	u.take(uint64(max(size, 0)))
	u.short = u.short || size <= 0
	if size <= 0 {
		return 0
	}
	return n
}

// end answers an error unless there was all, and nothing more.
func (u *unpacking) end() error {
	if u.short || len(u.rest) > 0 {
		return errLength
	}
	return nil
}
