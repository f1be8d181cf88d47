package books

import (
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/values"
	"payledger/projections/table"
)

// JournalLine is one posting with the balance of its account after it.
type JournalLine struct {
	Position eventstore.Position
	At       domain.Instant // time of the event
	Project  string
	Event    domain.ID
	Type     string // of the event
	Payment  domain.ID
	Refund   domain.ID // zero for an event of no refund
	Account  domain.Account
	Currency domain.Currency
	Amount   domain.Sum
	Balance  domain.Sum
}

// journalView holds every posting: the account's number as 4 bytes, position as
// 8. A statement is a walk through one account's keys, and the account's balance
// as of a position is the last one up to there.
type journalView struct{ *table.Table[journalEntry] }

// journalEntry is the part of a line that is not in its key.
type journalEntry struct {
	event   domain.ID
	payment domain.ID
	refund  domain.ID
	amount  domain.Sum
	balance domain.Sum
	typ     string
}

func newJournalView(db *table.DB) *journalView {
	return &journalView{table.New(db, "journal", appendJournal, parseJournal)}
}

// The form of a line: a byte of flags, the event's type, the ids of event and
// payment, and of the refund if there is one, then amount and balance, as
// varints or, when one of them has more than 64 bits, as 16 bytes each.
const (
	lineOfRefund = 1 << iota
	lineWide
)

func appendJournal(b []byte, l journalEntry) ([]byte, error) {
	amount, narrow := narrowSum(l.amount)
	balance, both := narrowSum(l.balance)
	flags := byte(0)
	if !l.refund.IsZero() {
		flags |= lineOfRefund
	}
	if !narrow || !both {
		flags |= lineWide
	}
	b = append(b, flags)
	b = appendLineType(b, l.typ)
	b = append(append(b, l.event[:]...), l.payment[:]...)
	if flags&lineOfRefund != 0 {
		b = append(b, l.refund[:]...)
	}
	if flags&lineWide == 0 {
		return binary.AppendVarint(binary.AppendVarint(b, amount), balance), nil
	}
	for _, s := range []domain.Sum{l.amount, l.balance} {
		hi, lo := s.Bits()
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, hi), lo)
	}
	return b, nil
}

func parseJournal(b []byte) (l journalEntry, err error) {
	d := values.Decode(b)
	flags := d.Byte()
	l.typ = lineType(&d)
	l.event, l.payment = d.ID(), d.ID()
	if flags&lineOfRefund != 0 {
		l.refund = d.ID()
	}
	for _, s := range []*domain.Sum{&l.amount, &l.balance} {
		if flags&lineWide == 0 {
			n := d.Int()
			*s = domain.SumFromBits(uint64(n>>63), uint64(n))
		} else if half := d.Bytes(16); half != nil {
			*s = domain.SumFromBits(binary.BigEndian.Uint64(half), binary.BigEndian.Uint64(half[8:]))
		}
	}
	return l, d.End()
}

func narrowSum(s domain.Sum) (n int64, ok bool) {
	hi, lo := s.Bits()
	return int64(lo), int64(hi) == int64(lo)>>63
}

// lineTypes are the types of events that move money, by their number from 1;
// 0 is any other, and its name follows.
func lineTypes() [10]string {
	return [...]string{
		domain.TypePaymentPaid, domain.TypePaymentLateFunds, domain.TypeRefundCreated, domain.TypeRefundSucceeded,
		domain.TypeRefundFailed, domain.TypeReturnCreated, domain.TypeReturnSucceeded, domain.TypeReturnFailed,
		domain.TypePaymentRefundedAtProvider, domain.TypePaymentSuspenseSettled,
	}
}

func appendLineType(b []byte, name string) []byte {
	for i, t := range lineTypes() {
		if t == name {
			return append(b, byte(i+1))
		}
	}
	return values.AppendText(append(b, 0), name)
}

func lineType(d *values.Decoder) string {
	n := d.Byte()
	if n == 0 {
		return string(d.Text())
	}
	for i, t := range lineTypes() {
		if byte(i+1) == n {
			return t
		}
	}
	d.Fail()
	return ""
}

// positionOf is the position at a journal key's end.
func positionOf(key string) eventstore.Position {
	return eventstore.Position(binary.BigEndian.Uint64([]byte(key[len(key)-8:])))
}
