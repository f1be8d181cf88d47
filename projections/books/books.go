package books

import (
	"context"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/table"
)

// MaxLimit is the largest number of lines that a page can have.
const MaxLimit = 1000

// Log is how far the books have come along the event log, and the log itself.
type Log interface {
	// Fresh waits until the books reflect every event that the log holds now and that the filter
	// matches.
	Fresh(ctx context.Context, f eventstore.Filter) (eventstore.Position, error)
	// TimeOf is the time of the event at a position, 0 for position 0.
	TimeOf(ctx context.Context, p eventstore.Position) (domain.Instant, error)
	// EventAt is the event at a position.
	EventAt(ctx context.Context, p eventstore.Position) (eventstore.Stored, domain.Event, error)
}

// Books are the accounts of all projects. Their methods are the reads.
type Books struct {
	db       *table.DB
	log      Log
	accounts *accountsView
	journal  *journalView
	fees     *journalView // what events of settlement reports take of what merchants are owed: those lines of the journal again
	times    *timesView

	last eventstore.Position // of the last event folded; guarded by the DB
}

// New adds the tables of the books to the DB, which must not be open yet.
func New(db *table.DB, log Log) (*Books, *Writer) {
	b := &Books{db: db, log: log, times: newTimesView(db), journal: newJournalView(db, "journal"), fees: newJournalView(db, "fees"), accounts: newAccountsView(db)}
	return b, &Writer{b}
}

// Writer folds events into the books. Only one goroutine uses it.
type Writer struct{ books *Books }

// Fold folds an event. The DB is locked.
func (w *Writer) Fold(r eventstore.Stored, e domain.Event) {
	w.books.last = r.Position
	w.books.times.fold(r)
	for _, l := range w.books.accounts.post(r, e) {
		w.books.journal.Insert(l.account.line(r.Position), l.entry)
		if r.Stream.Kind == eventstore.KindSettlement && l.account.Account == domain.MerchantPayable {
			w.books.fees.Insert(l.account.line(r.Position), l.entry)
		}
	}
}

// Load reads the part that the books keep in memory from a file that reflects the log up to the
// position.
func (w *Writer) Load(ctx context.Context, position eventstore.Position) error {
	w.books.last = position
	if err := w.books.times.load(ctx); err != nil {
		return err
	}
	return w.books.accounts.load(ctx)
}
