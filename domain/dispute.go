package domain

import (
	"cmp"
	"slices"
)

// DisputeStatus is the status of a dispute. It moves forward only: open, lost, won, some left out.
type DisputeStatus string

// The statuses of a dispute.
const (
	DisputeOpen DisputeStatus = "open" // the provider holds the money until it is decided
	DisputeWon  DisputeStatus = "won"  // the merchant has the money again, maybe after it was lost
	DisputeLost DisputeStatus = "lost" // the customer has it
)

// Dispute is a customer's objection to a paid payment at the bank, by which the provider takes the
// money or a part of it back. It never changes the payment's status.
type Dispute struct {
	Reference     string        `json:"reference"` // the provider's id of the dispute
	Status        DisputeStatus `json:"status"`
	Amount        Amount        `json:"amount"` // in the payment's currency
	Reason        string        `json:"reason,omitempty"`
	OpenedAt      Instant       `json:"opened_at,omitzero"`       // 0: unknown
	EvidenceDueBy Instant       `json:"evidence_due_by,omitzero"` // 0: unknown, or none is taken
}

// MaxDisputes is how many disputes of one payment are recorded.
const MaxDisputes = 20

// Dispute finds one of the payment's disputes by the provider's reference.
func (p Payment) Dispute(reference string) (Dispute, bool) {
	return Find(p.Disputes, func(d Dispute) bool { return d.Reference == reference })
}

// DisputeStatus is that of the payment's disputes: open while one is, else the status of the last
// one, "" without any.
func (p Payment) DisputeStatus() (last DisputeStatus) {
	for _, d := range p.Disputes {
		if last = d.Status; last == DisputeOpen {
			break
		}
	}
	return last
}

// Disputed is how much of the payment's money disputes hold or have taken.
func (p Payment) Disputed() (total Amount) {
	for _, d := range p.Disputes {
		if d.Status != DisputeWon {
			total += d.Amount
		}
	}
	return total
}

// Lost is how much of the payment's money disputes have taken that were lost.
func (p Payment) Lost() (total Amount) {
	for _, d := range p.Disputes {
		if d.Status == DisputeLost {
			total += d.Amount
		}
	}
	return total
}

// AboutDispute reports whether the outcome is that of a dispute.
func (o Outcome) AboutDispute() bool {
	return o == OutcomeDisputed || o == OutcomeDisputeWon || o == OutcomeDisputeLost
}

// canBecome reports whether a dispute may move from status s to next.
func (s DisputeStatus) canBecome(next DisputeStatus) bool {
	return s == DisputeOpen && next != DisputeOpen || s == DisputeLost && next == DisputeWon
}

// decideDispute decides what a signal says of a dispute. What is heard of later than what follows it
// is refused: the books are the same.
func (c ApplySignal) decideDispute(p Payment) Event {
	s := c.Signal
	d, known := p.Dispute(s.Reference)
	next := map[Outcome]DisputeStatus{OutcomeDisputed: DisputeOpen, OutcomeDisputeWon: DisputeWon, OutcomeDisputeLost: DisputeLost}[s.Outcome]
	switch {
	case p.Status != Paid:
		return refused(s, ReasonNotPaid)
	case known && !d.Status.canBecome(next), c.NoneBack && d.Status == DisputeLost:
		return refused(s, ReasonFinalStatus)
	case s.Currency != p.Currency, s.Amount > p.Amount, known && s.Amount != d.Amount:
		return refused(s, ReasonWrongAmount)
	case !known && len(p.Disputes) >= MaxDisputes:
		return refused(s, ReasonTooManyDisputes)
	case s.Outcome == OutcomeDisputed:
		return PaymentDisputed{Reason: c.Reason, EvidenceDueBy: c.EvidenceDueBy, Signal: s}
	case s.Outcome == OutcomeDisputeWon:
		return PaymentDisputeWon{Opened: known, Lost: d.Status == DisputeLost, Signal: s}
	}
	return PaymentDisputeLost{Opened: known, Signal: s}
}

// saysMore decides what a signal that was recorded before says of an open dispute that lacks it, as one
// does that a line of a settlement report has opened; nil: nothing.
func (c ApplySignal) saysMore(p Payment) Event {
	d, _ := p.Dispute(c.Signal.Reference)
	reason, due := cmp.Or(d.Reason, c.Reason), cmp.Or(d.EvidenceDueBy, c.EvidenceDueBy)
	fits := c.Signal.Route == p.Route && c.Signal.Amount == d.Amount && c.Signal.Currency == p.Currency // else it was refused
	if c.Signal.Outcome != OutcomeDisputed || d.Status != DisputeOpen || !fits || reason == d.Reason && due == d.EvidenceDueBy {
		return nil
	}
	return PaymentDisputed{Opened: true, Reason: reason, EvidenceDueBy: due, Signal: c.Signal}
}

// withDispute returns the payment with the dispute that the signal is about in its status.
func (p Payment) withDispute(s Signal, d Dispute) Payment {
	p.Disputes = slices.Clone(p.Disputes)
	i := slices.IndexFunc(p.Disputes, func(known Dispute) bool { return known.Reference == s.Reference })
	switch {
	case i < 0:
		d.Reference, d.Amount, d.OpenedAt = s.Reference, s.Amount, s.StartedAt
		p.Disputes = append(p.Disputes, d)
	case p.Disputes[i].Status.canBecome(d.Status):
		p.Disputes[i].Status = d.Status
	case p.Disputes[i].Status == DisputeOpen: // and open again: see saysMore
		known := &p.Disputes[i]
		known.Reason, known.EvidenceDueBy = cmp.Or(known.Reason, d.Reason), cmp.Or(known.EvidenceDueBy, d.EvidenceDueBy)
		known.OpenedAt = cmp.Or(known.OpenedAt, s.StartedAt)
		return p
	}
	return p.remember(&s)
}
