// Package views folds the event log into what reads are answered from: payments and their lists,
// refunds, projects, sums by time, and the hashes of the log's Merkle tree. A view is a fold: it
// has no clock, no network and no commands, so that the same events always lead to the same rows.
//
// The table of payments and the views of events are changed with every event.
// The other views of payments are updated for some hundred changed payments at
// once, and before any of them is read.
//
// A project's id is written in full in the keys of its lists. A number of 4 bytes
// in its place would make the file 14 % smaller (1,969 in place of 2,287 bytes
// for a payment of five events, see BenchmarkRebuild of package projections) and
// every read and write would have to translate it.
package views

import (
	"context"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/table"
)

// Format is the version of the file's form. It is raised whenever the same events
// lead to other keys or values, here or in the books: a file of another format
// is rebuilt.
const Format = 26

// Views are all views of payments, refunds and projects, and the log's Merkle
// tree. Their methods are the reads, each in the file of its view.
//
// To add a view, write its file and give it a field and a row below.
type Views struct {
	db      *table.DB
	log     Log
	pending pending // guarded by db

	payments     *paymentsView
	byProject    *listView[facts]
	byStatus     *listView[facts]
	description  *listView[facts]
	terms        *termsView
	refunds      *refundsView
	refundList   *refundsView
	refundStatus *refundsView
	byRefund     *listView[facts]
	disputed     *listView[facts]
	due          *listView[string]
	unrouted     *listView[string]
	uncollected  *listView[domain.Outstanding]
	suspense     *listView[string]
	references   *referencesView
	projects     *projectsView
	quarters     *periodsView
	days         *periodsView
	attempts     *attemptsView
	translog     *translogView
	acts         *actsView
	deliveries   *Deliveries
	settlements  *settlementsView

	ofPayments []paymentView
	ofEvents   []eventView
	loaded     []loadedView
}

// New adds the tables of all views to the DB, which must not be open yet.
// cachedPayments is the number of decoded payments to keep in memory.
func New(db *table.DB, log Log, cachedPayments int) (*Views, *Writer) {
	v := &Views{db: db, log: log, pending: make(pending)}
	v.payments = newPaymentsView(db, cachedPayments)

	v.byProject = ofPayments(v, newByProject(db))
	v.byStatus = ofPayments(v, newByStatus(db))
	v.description = ofPayments(v, newByDescription(db))
	v.terms = ofPayments(v, newTermsView(db))
	v.refunds = ofPayments(v, newRefunds(db))
	v.refundList = ofPayments(v, newRefundList(db))
	v.refundStatus = ofPayments(v, newRefundStatus(db))
	v.byRefund = ofPayments(v, newByRefund(db))
	v.disputed = ofPayments(v, newDisputed(db))
	v.due = ofPayments(v, newDue(db))
	v.unrouted = ofPayments(v, newUnrouted(db))
	v.uncollected = ofPayments(v, newUncollected(db))
	v.suspense = ofPayments(v, newSuspense(db))
	v.references = ofPayments(v, newReferencesView(db))

	v.projects = ofEvents(v, newProjectsView(db))
	v.quarters = ofEvents(v, newPeriodsView(db, "quarters", PeriodLength))
	v.days = ofEvents(v, newPeriodsView(db, "days", dayLength))
	v.attempts = ofEvents(v, newAttemptsView(db))
	v.translog = ofEvents(v, newTranslogView(db))
	v.acts = ofEvents(v, newActsView(db))
	v.deliveries = ofEvents(v, newDeliveries(db, log, v.projects))
	v.settlements = ofEvents(v, newSettlementsView(db))
	return v, &Writer{views: v, MaxPending: MaxPending}
}

// paymentView is a fold of payments. before is the payment as of the view's last update of it, nil
// if it did not exist; after is the payment now, maybe several events later. update changes only
// the view's table and depends on nothing else.
type paymentView interface {
	update(before, after *PaymentRow)
}

// eventView is a fold of events. fold is called with every event in the order of the log. It
// changes only the view's table, and depends only on this event and those before it.
type eventView interface {
	fold(c *change)
}

// loadedView keeps a part of the file in memory; load reads that part when a file is opened that
// reflects the log up to the position.
type loadedView interface {
	load(ctx context.Context, position eventstore.Position) error
}

func ofPayments[V paymentView](all *Views, view V) V {
	all.ofPayments = append(all.ofPayments, view)
	return view
}

func ofEvents[V eventView](all *Views, view V) V {
	all.ofEvents = append(all.ofEvents, view)
	if l, ok := any(view).(loadedView); ok {
		all.loaded = append(all.loaded, l)
	}
	return view
}
