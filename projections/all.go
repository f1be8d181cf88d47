package projections

import (
	"fmt"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// view is one fold of the log. To add one, write its file and give it a field
// and a row below.
type view interface {
	tableLayers
	// version is raised whenever the same events lead to other keys or values;
	// the file is then rebuilt.
	version() int
}

// eventView is told of each event. Its fold may only change the view's own
// table, and depends on nothing but what it is told and what it folded before.
type eventView interface {
	view
	fold(*change)
}

// paymentView is told how a payment was when it was told of it last, nil if it
// did not exist, and how it is now: several events later, maybe. Its move may
// only change the view's own table, and depends on nothing else.
type paymentView interface {
	view
	move(before, after *paymentRow)
}

// loadedView is a view that keeps something of the file in memory for good; it
// reads that when a file is opened.
type loadedView interface{ load(*bolt.Tx) error }

// views are all there are.
type views struct {
	payments     *paymentsView
	byProject    *byProjectView
	byStatus     *byStatusView
	description  *descriptionView
	words        *wordsView
	refunds      *refundsView
	refundList   *refundListView
	refundStatus *refundStatusView
	due          *dueView
	unrouted     *unroutedView
	projects     *projectsView
	endpoints    *endpointsView
	days         *daysView
	times        *timesView
	journal      *journalView
	balances     *balancesView
	translog     *translogView
}

func newViews() views {
	return views{
		payments:     newPaymentsView(),
		byProject:    newByProjectView(),
		byStatus:     newByStatusView(),
		description:  newDescriptionView(),
		words:        newWordsView(),
		refunds:      newRefundsView(),
		refundList:   newRefundListView(),
		refundStatus: newRefundStatusView(),
		due:          newDueView(),
		unrouted:     newUnroutedView(),
		projects:     newProjectsView(),
		endpoints:    newEndpointsView(),
		days:         newDaysView(),
		times:        newTimesView(),
		journal:      newJournalView(),
		balances:     newBalancesView(),
		translog:     newTranslogView(),
	}
}

func (v views) all() (all []view) {
	for _, one := range v.ofPayments() {
		all = append(all, one)
	}
	for _, one := range v.ofEvents() {
		all = append(all, one)
	}
	return all
}

func (v views) ofPayments() []paymentView {
	return []paymentView{
		v.payments,
		v.byProject,
		v.byStatus,
		v.description,
		v.words,
		v.refunds,
		v.refundList,
		v.refundStatus,
		v.due,
		v.unrouted,
	}
}

func (v views) ofEvents() []eventView {
	return []eventView{
		v.projects,
		v.endpoints,
		v.days,
		v.times,
		v.journal,
		v.balances,
		v.translog,
	}
}

// shapes names every view with its version, as the file's checkpoint does.
func shapes(all []view) string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = fmt.Sprintf("%s:%d", v.bucket(), v.version())
	}
	return strings.Join(names, " ")
}
