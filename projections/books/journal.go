package books

import (
	"encoding/binary"

	"payledger/domain"
	"payledger/domain/settlement"
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
	Type     string    // of the event
	Payment  domain.ID // zero for an event of a settlement report
	Refund   domain.ID // zero for an event of no refund
	Account  domain.Account
	Currency domain.Currency
	Amount   domain.Sum
	Balance  domain.Sum
	Payout   settlement.Payout // of the event of one
	Undoes   bool              // the payout
	Report   string            // of an event of a settlement report: its id
}

// journalView holds every posting: the account's number as 4 bytes, position as
// 8. A statement is a walk through one account's keys, and the account's balance
// as of a position is the last one up to there.
type journalView struct{ *table.Table[journalEntry] }

// journalEntry is the part of a line that is neither in its key nor in the event, which
// the log has.
type journalEntry struct{ amount, balance domain.Sum }

func newJournalView(db *table.DB, name string) *journalView {
	return &journalView{table.New(db, name, appendJournal, parseJournal)}
}

// The form of a line: a byte that says how, then amount and balance, as varints or, when one
// of them has more than 64 bits, as 16 bytes each.
const (
	lineNarrow byte = iota
	lineWide
)

func appendJournal(b []byte, l journalEntry) ([]byte, error) {
	amount, narrow := narrowSum(l.amount)
	balance, both := narrowSum(l.balance)
	if narrow && both {
		return binary.AppendVarint(binary.AppendVarint(append(b, lineNarrow), amount), balance), nil
	}
	b = append(b, lineWide)
	for _, s := range []domain.Sum{l.amount, l.balance} {
		hi, lo := s.Bits()
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, hi), lo)
	}
	return b, nil
}

func parseJournal(b []byte) (l journalEntry, err error) {
	d := values.Decode(b)
	form := d.Byte()
	if form > lineWide {
		d.Fail()
	}
	for _, s := range []*domain.Sum{&l.amount, &l.balance} {
		if form == lineNarrow {
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

// positionOf is the position at a journal key's end.
func positionOf(key string) eventstore.Position {
	return eventstore.Position(binary.BigEndian.Uint64([]byte(key[len(key)-8:])))
}
