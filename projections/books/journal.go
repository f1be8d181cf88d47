package books

import (
	"encoding/binary"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
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
type journalEntry struct{ Amount, Balance domain.Sum }

func newJournalView(db *table.DB, name string) *journalView {
	return &journalView{table.OfValues[journalEntry](db, name)}
}

// positionOf is the position at a journal key's end.
func positionOf(key string) eventstore.Position {
	return eventstore.Position(binary.BigEndian.Uint64([]byte(key[len(key)-8:])))
}
