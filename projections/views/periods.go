package views

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"payledger/domain"
	"payledger/projections/table"
)

// PeriodLength is the period that sums are kept by. Every time zone is some number
// of these away from UTC, so they add up to the days of any zone.
const PeriodLength = domain.Instant(15 * time.Minute / time.Millisecond)

const dayLength = domain.Instant(24 * time.Hour / time.Millisecond)

// Tally counts payments or refunds and sums up their amounts.
type Tally struct {
	Count uint64
	Sum   domain.Sum
}

func (t Tally) add(n int, amount domain.Amount) Tally {
	sum := domain.SumOf(amount)
	if n < 0 {
		sum = sum.Neg()
	}
	return Tally{t.Count + uint64(n), t.Sum.Add(sum)}
}

// Plus adds two tallies.
func (t Tally) Plus(o Tally) Tally { return Tally{t.Count + o.Count, t.Sum.Add(o.Sum)} }

func (t Tally) minus(o Tally) Tally { return Tally{t.Count - o.Count, t.Sum.Add(o.Sum.Neg())} }

// PeriodRow is what happened in one currency in one period, and what has become by
// now of the payments that were created in it.
type PeriodRow struct {
	Period   int // which of those asked for; neither this nor the currency is in the table, whose keys have them
	Currency domain.Currency
	Created  Tally
	Paid     Tally // payments that were paid in the period, whenever they were created
	Refunded Tally // refunds that succeeded in the period, likewise, even if they came back later, and those by another hand
	ByStatus ByStatus
	Returned Tally // of the payments created in the period: those of which money went back, and how much
	Lost     Tally // disputes that were lost in the period, likewise, even if they were won later
	Back     Tally // of Refunded and Lost, of any period: what came back in this one
}

// ByStatus are tallies of payments by their status.
type ByStatus struct{ Created, AwaitingPayment, Paid, Expired, Failed Tally }

// Of is the tally of a status, nil for none.
func (b *ByStatus) Of(s domain.PaymentStatus) *Tally {
	switch s {
	case domain.Created:
		return &b.Created
	case domain.AwaitingPayment:
		return &b.AwaitingPayment
	case domain.Paid:
		return &b.Paid
	case domain.Expired:
		return &b.Expired
	case domain.Failed:
		return &b.Failed
	}
	return nil
}

// periodsView adds up payments by stretches of one length: project, 0, the number of
// the stretch since 1970-01-01 UTC as 4 bytes, currency. There is one of quarter hours,
// and one of days of UTC, so that long times are added up from few rows.
type periodsView struct {
	counters[PeriodRow]
	length domain.Instant
}

func newPeriodsView(db *table.DB, name string, length domain.Instant) *periodsView {
	return &periodsView{newCounters[PeriodRow](db, name), length}
}

// stretch is the number of the stretch that an instant is in.
func (v *periodsView) stretch(at domain.Instant) uint32 {
	return uint32(min(max(at, 0)/v.length, math.MaxUint32))
}

func (v *periodsView) key(project string, stretch uint32, c domain.Currency) string {
	b := binary.BigEndian.AppendUint32(append(append(make([]byte, 0, 64), project...), 0), stretch)
	return string(append(b, c...))
}

// parse is the part of a row that is in its key: where its stretch starts, and the
// currency.
func (v *periodsView) parse(project, key string) (start domain.Instant, c domain.Currency) {
	rest := key[len(project)+1:]
	return domain.Instant(binary.BigEndian.Uint32([]byte(rest))) * v.length, domain.Currency(rest[4:])
}

// count works out the rows that an event of a payment leads to.
func (v *periodsView) count(c *change) error {
	p := &c.paymentAfter.Payment
	var before domain.PaymentStatus
	if c.paymentBefore != nil {
		before = c.paymentBefore.Payment.Status
	}
	now := domain.InstantOf(c.Record.At)
	if p.Status != before {
		row, err := v.rowAt(p, p.CreatedAt)
		if err != nil {
			return err
		}
		if t := row.ByStatus.Of(before); t != nil {
			*t = t.add(-1, p.Amount)
		} else {
			row.Created = row.Created.add(1, p.Amount)
		}
		if t := row.ByStatus.Of(p.Status); t != nil {
			*t = t.add(1, p.Amount)
		}
		if p.Status == domain.Paid {
			if row, err = v.rowAt(p, now); err != nil {
				return err
			}
			row.Paid = row.Paid.add(1, p.Amount)
		}
	}
	var returned, lost domain.Amount // before the event
	if c.paymentBefore != nil {
		returned, lost = c.paymentBefore.Payment.Returned(), c.paymentBefore.Payment.Lost()
	}
	taken, back := p.Lost()-lost, max(returned-p.Returned(), lost-p.Lost())
	if taken > 0 || back > 0 {
		row, err := v.rowAt(p, now)
		if err != nil {
			return err
		}
		if taken > 0 {
			row.Lost = row.Lost.add(1, taken)
		} else {
			row.Back = row.Back.add(1, back)
		}
	}
	switch more := p.Returned() - returned; {
	case more > 0:
		row, err := v.rowAt(p, now)
		if err != nil {
			return err
		}
		row.Refunded = row.Refunded.add(1, more)
		if row, err = v.rowAt(p, p.CreatedAt); err != nil {
			return err
		}
		payments := 0
		if returned == 0 {
			payments = 1
		}
		row.Returned = row.Returned.add(payments, more)
	case more < 0: // a refund came back
		row, err := v.rowAt(p, p.CreatedAt)
		if err != nil {
			return err
		}
		less := Tally{Sum: domain.SumOf(-more)}
		if p.Returned() == 0 {
			less.Count = 1
		}
		row.Returned = row.Returned.minus(less)
	}
	return nil
}

// rowAt is that of an instant, to be changed.
func (v *periodsView) rowAt(p *domain.Payment, at domain.Instant) (*PeriodRow, error) {
	return v.row(v.key(p.Project, v.stretch(at), p.Currency))
}

// each calls fn for the rows of a project from one instant up to another, both of
// which bound stretches; 0 is no bound.
func (v *periodsView) each(
	ctx context.Context, project string, from, to domain.Instant, fn func(start domain.Instant, c domain.Currency, r *PeriodRow),
) error {
	all := table.Prefix(listKey(project))
	if from > 0 {
		all.Lo = v.key(project, v.stretch(from), "")
	}
	if to > 0 {
		all.Hi = v.key(project, v.stretch(to), "")
	}
	return v.Each(ctx, all, math.MaxInt, func(key string, r *PeriodRow) error {
		start, currency := v.parse(project, key)
		fn(start, currency, r)
		return nil
	})
}

// Periods adds up what happened to a project's payments from each of the bounds up to
// the next, in order of period and currency. Periods in which nothing happened are
// left out. The bounds are multiples of PeriodLength and rise.
func (v *Views) Periods(ctx context.Context, project string, bounds []domain.Instant) ([]PeriodRow, error) {
	if err := v.fresh(ctx); err != nil {
		return nil, err
	}
	if len(bounds) < 2 {
		return nil, nil
	}
	view := v.days
	if slices.ContainsFunc(bounds, func(at domain.Instant) bool { return at%dayLength != 0 }) {
		view = v.quarters
	}
	var out []PeriodRow
	period, begun := 0, 0 // begun is where the rows of the period begin
	err := view.each(ctx, project, bounds[0], bounds[len(bounds)-1], func(start domain.Instant, c domain.Currency, r *PeriodRow) {
		for start >= bounds[period+1] {
			period, begun = period+1, len(out)
		}
		i := slices.IndexFunc(out[begun:], func(o PeriodRow) bool { return o.Currency == c }) + begun
		if i < begun {
			i, out = len(out), append(out, PeriodRow{Period: period, Currency: c})
		}
		out[i].plus(r)
	})
	slices.SortFunc(out, func(a, b PeriodRow) int { return cmp.Or(a.Period-b.Period, cmp.Compare(a.Currency, b.Currency)) })
	return out, err
}

func (r *PeriodRow) plus(o *PeriodRow) {
	more := o.tallies()
	for i, t := range r.tallies() {
		*t = t.Plus(*more[i])
	}
}

func (r *PeriodRow) tallies() []*Tally {
	of := &r.ByStatus
	return []*Tally{
		&r.Created, &r.Paid, &r.Refunded, &r.Returned, &r.Lost, &r.Back, &of.Created, &of.AwaitingPayment, &of.Paid, &of.Expired, &of.Failed,
	}
}
