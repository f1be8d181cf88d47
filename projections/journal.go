package projections

import (
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore"
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

// journalView holds every posting: the account's number as 4 bytes, position as 8. A statement is a walk
// through one account's keys, and its balance as of a position one step back
// from there.
type journalView struct{ table[journalEntry] }

// journalEntry is what of a line is not in its key.
type journalEntry struct {
	event   domain.ID
	payment domain.ID
	refund  domain.ID
	amount  domain.Sum
	balance domain.Sum
	typ     string
}

func newJournalView() *journalView {
	return &journalView{newTable("journal", appendJournal, parseJournal)}
}

func (*journalView) version() int { return 2 }

func (v *journalView) fold(c *change) {
	for _, p := range c.postings {
		v.insert(p.account.line(c.record.Position), p.line)
	}
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
	u := unpacking{rest: b}
	flags := u.byte()
	l.typ = lineType(&u)
	l.event, l.payment = u.id(), u.id()
	if flags&lineOfRefund != 0 {
		l.refund = u.id()
	}
	for _, s := range []*domain.Sum{&l.amount, &l.balance} {
		if flags&lineWide == 0 {
			n := u.number()
			*s = domain.SumFromBits(uint64(n>>63), uint64(n))
		} else if half := u.take(16); half != nil {
			*s = domain.SumFromBits(binary.BigEndian.Uint64(half), binary.BigEndian.Uint64(half[8:]))
		}
	}
	return l, u.end()
}

func narrowSum(s domain.Sum) (n int64, ok bool) {
	hi, lo := s.Bits()
	return int64(lo), int64(hi) == int64(lo)>>63
}

// lineTypes are the types of events that move money, by their number from 1;
// 0 is any other, and its name follows.
func lineTypes() [5]string {
	return [...]string{
		domain.TypePaymentPaid, domain.TypePaymentLateFunds, domain.TypeRefundCreated, domain.TypeRefundSucceeded,
		domain.TypeRefundFailed,
	}
}

func appendLineType(b []byte, name string) []byte {
	for i, t := range lineTypes() {
		if t == name {
			return append(b, byte(i+1))
		}
	}
	return appendText(append(b, 0), name)
}

func lineType(u *unpacking) string {
	n := u.byte()
	if n == 0 {
		return string(u.text())
	}
	for i, t := range lineTypes() {
		if byte(i+1) == n {
			return t
		}
	}
	u.short = true
	return ""
}

// positionOf is the position at a journal key's end.
func positionOf(key string) eventstore.Position {
	return eventstore.Position(binary.BigEndian.Uint64([]byte(key[len(key)-8:])))
}

// posted is one posting of an event and the account after it.
type posted struct {
	account *accountRow
	line    journalEntry
}

// post works out what an event means for the accounts.
func (e *Engine) post(r eventstore.Stored, event domain.Event) []posted {
	lines := domain.Postings(event)
	if len(lines) == 0 {
		return nil
	}
	payment, _ := domain.ParseID(r.Stream.ID)
	out, accounts := make([]posted, len(lines)), e.balances.count
	for i, l := range lines {
		next := accountRow{Project: r.Stream.Project, Currency: l.Currency, Account: l.Account}
		if was := e.balances.of(&next); was != nil {
			next.Balance, next.Number = was.Balance, was.Number
		} else {
			accounts++
			next.Number = accounts
		}
		next.Balance, next.Position = next.Balance.Add(l.Amount), r.Position
		out[i] = posted{&next, journalEntry{
			event: r.Commit, payment: payment, refund: domain.FactsOf(event).Refund,
			amount: l.Amount, balance: next.Balance, typ: event.Type(),
		}}
	}
	return out
}
