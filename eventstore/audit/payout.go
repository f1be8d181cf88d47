package audit

import (
	"cmp"
	"slices"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
)

// payouts is the state of all payouts, and what each merchant is owed.
type payouts struct {
	streams map[eventstore.Stream]*stream[settlement.Payouts]
	owed    map[owedTo]*owed
}

type owedTo struct {
	project  string
	currency domain.Currency
}

// owed is what a merchant is owed, with the last postings that changed it: a payout was decided a few
// events before its own.
type owed struct {
	now  domain.Sum
	last []debt
}

type debt struct {
	at   eventstore.Position
	more domain.Sum
}

// maxDebts is how many of the last postings are kept, at least; a payout that was decided longer ago
// is not judged by what was owed.
const maxDebts = 4096

func newPayouts() payouts {
	return payouts{streams: make(map[eventstore.Stream]*stream[settlement.Payouts]), owed: make(map[owedTo]*owed)}
}

// book follows what merchants are owed.
func (p *payouts) book(i *item) {
	if i.err != nil {
		return
	}
	for _, of := range domain.Postings(i.event) {
		if of.Account != domain.MerchantPayable {
			continue
		}
		to := owedTo{cmp.Or(of.Project, i.record.Stream.Project), of.Currency}
		o := p.owed[to]
		if o == nil {
			o = &owed{}
			p.owed[to] = o
		}
		if len(o.last) == 2*maxDebts {
			o.last = append(o.last[:0], o.last[maxDebts:]...)
		}
		more := of.Amount.Neg()
		o.now, o.last = o.now.Add(more), append(o.last, debt{i.record.Position, more})
	}
}

// at is what was owed at a position; not known if that is too long ago.
func (o *owed) at(position eventstore.Position) (then domain.Sum, known bool) {
	if o == nil {
		return then, true
	}
	then = o.now
	for _, d := range slices.Backward(o.last) {
		if d.at <= position {
			return then, true
		}
		then = then.Add(d.more.Neg())
	}
	return then, len(o.last) < maxDebts
}

// followPayout checks a payout: one reference is booked once until that is undone, and no merchant is paid
// more than it was owed when that was decided, after its last payout. A payout is undone once.
func (c *checker) followPayout(i *item) {
	r := &i.record
	s := streamAt(c.streams.payouts.streams, r.Stream, settlement.Payouts{})
	before := s.position
	evolve(c, i, &s.head, &s.state, func() error {
		most := domain.SumOf(domain.MaxAmount)
		want := eventstore.PaidStream(r.Stream.Project)
		if e, ok := i.event.(settlement.PayoutEvent); ok {
			want = eventstore.PayoutStream(r.Stream.Project, e.Payout())
		}
		if e, ok := i.event.(settlement.PayoutToMerchant); ok {
			asOf := eventstore.Position(e.AsOf)
			if asOf < before || asOf >= r.Position {
				c.add(r, ImpossibleEvent, "it was decided at position %d, which is not between the payout before it and itself", asOf)
			}
			if owed, known := c.streams.payouts.owed[owedTo{r.Stream.Project, e.Currency}].at(asOf); known && !c.unseen() {
				most = owed
			}
		}
		if r.Stream != want {
			c.add(r, BrokenStream, "the payout belongs to the stream of %s in %s", want.ID, want.Project)
		}
		return s.state.Redecide(i.event, most)
	})
}
