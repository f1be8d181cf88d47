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

// journalView holds every posting: accountKey, position. A statement is a walk
// through one account's keys, and its balance as of a position one step back
// from there.
type journalView struct{ table[journalEntry] }

// journalEntry is what of a line is not in its key.
type journalEntry struct {
	at      domain.Instant
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

func (*journalView) version() int { return 1 }

func (v *journalView) fold(c change) {
	for _, p := range c.postings {
		v.insert(p.account.key()+uint64Key(uint64(c.record.Position)), p.line)
	}
}

func appendJournal(b []byte, l journalEntry) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, uint64(l.at))
	b = append(append(append(b, l.event[:]...), l.payment[:]...), l.refund[:]...)
	for _, s := range []domain.Sum{l.amount, l.balance} {
		hi, lo := s.Bits()
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, hi), lo)
	}
	return append(b, l.typ...), nil
}

func parseJournal(b []byte) (l journalEntry, err error) {
	if len(b) < 8+3*idSize+32 {
		return l, errLength
	}
	number := func() uint64 {
		n := binary.BigEndian.Uint64(b)
		b = b[8:]
		return n
	}
	l.at = domain.Instant(number())
	for _, id := range []*domain.ID{&l.event, &l.payment, &l.refund} {
		b = b[copy(id[:], b):]
	}
	for _, s := range []*domain.Sum{&l.amount, &l.balance} {
		hi := number()
		*s = domain.SumFromBits(hi, number())
	}
	l.typ = string(b)
	return l, nil
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
	out := make([]posted, len(lines))
	for i, l := range lines {
		next := accountRow{Project: r.Stream.Project, Currency: l.Currency, Account: l.Account}
		if was := e.balances.of(next); was != nil {
			next.Balance = was.Balance
		}
		next.Balance, next.Position = next.Balance.Add(l.Amount), r.Position
		out[i] = posted{&next, journalEntry{
			at: domain.InstantOf(r.At), event: r.Commit, payment: payment, refund: refundOf(event),
			amount: l.Amount, balance: next.Balance, typ: event.Type(),
		}}
	}
	return out
}

func refundOf(e domain.Event) domain.ID {
	switch e := e.(type) {
	case domain.RefundCreated:
		return e.RefundID
	case domain.RefundSucceededEvent:
		return e.RefundID
	case domain.RefundFailedEvent:
		return e.RefundID
	}
	return domain.ID{}
}
