package domain

import (
	"cmp"
	"strconv"
)

// WorkKind is what is to be done or learned about a payment at its provider.
type WorkKind string

// The kinds of work.
const (
	WorkAttempt WorkKind = "attempt" // an attempt is open: has the customer paid?
	WorkCancel  WorkKind = "cancel"  // an attempt is open whose money is not wanted any more
	WorkRefund  WorkKind = "refund"  // a refund is pending
	WorkReturn  WorkKind = "return"  // a return of late funds is pending
	WorkDispute WorkKind = "dispute" // a dispute is open
)

// WorkKinds are all kinds of work.
func WorkKinds() []WorkKind {
	return []WorkKind{WorkAttempt, WorkCancel, WorkRefund, WorkReturn, WorkDispute}
}

// Work is one thing that is to be done or learned at a provider.
type Work struct {
	Kind  WorkKind `json:"kind"`
	ID    string   `json:"id"` // the attempt's number, the id of the refund or return, or the provider's of the dispute
	Since Instant  `json:"since"`
}

// Looks is how a payment is followed at its provider. It is in the memory of a running server, and
// counts from when the payment was loaded.
type Looks struct {
	Tries     int      `json:"tries"`
	LastError string   `json:"last_error,omitzero"` // of the last try, or why there is none
	NextTry   *Instant `json:"next_try"`            // null: not known
}

// Outstanding is how much of a payment is open at the provider of its route: the
// payment's Work, counted.
type Outstanding struct {
	Route    string
	CancelAt Instant // when an open attempt is to be cancelled; 0: no attempt is open
	Refunds  int     // pending
	Returns  int     // pending
	Disputes int     // open
}

// Outstanding counts what is open at the payment's provider.
func (p Payment) Outstanding() Outstanding {
	o := Outstanding{Route: p.Route}
	if _, open := p.OpenAttempt(); open {
		o.CancelAt = p.DoorCloses()
		if p.Status.Final() {
			o.CancelAt = p.CreatedAt // it is already
		}
	}
	for _, r := range p.Refunds {
		if !r.Status.Final() {
			o.Refunds++
		}
	}
	for _, r := range p.Returns {
		if !r.Status.Final() {
			o.Returns++
		}
	}
	for _, d := range p.Disputes {
		if d.Status == DisputeOpen {
			o.Disputes++
		}
	}
	return o
}

// Work is what is open at the payment's provider; none unless Uncollected.
func (p Payment) Work(now Instant) []Work {
	var all []Work
	if a, open := p.OpenAttempt(); open {
		w := Work{Kind: WorkAttempt, ID: strconv.Itoa(a.Number), Since: a.BegunAt}
		if p.Status.Final() || now >= p.DoorCloses() {
			w.Kind = WorkCancel
		}
		all = append(all, w)
	}
	for _, r := range p.Refunds {
		if !r.Status.Final() {
			all = append(all, Work{Kind: WorkRefund, ID: r.ID.String(), Since: r.CreatedAt})
		}
	}
	for _, r := range p.Returns {
		if !r.Status.Final() {
			all = append(all, Work{Kind: WorkReturn, ID: r.ID.String(), Since: r.CreatedAt})
		}
	}
	for _, d := range p.Disputes {
		if d.Status == DisputeOpen {
			all = append(all, Work{Kind: WorkDispute, ID: d.Reference, Since: cmp.Or(d.OpenedAt, p.CreatedAt)})
		}
	}
	return all
}
