package views

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"time"

	"payledger/domain"
	"payledger/eventstore/boltfile"
	"payledger/projections/table"
)

// Day is a day of UTC, counted from 1970-01-01.
type Day uint32

const dayLength = domain.Instant(24 * time.Hour / time.Millisecond)

// DayOf is the day of an instant.
func DayOf(at domain.Instant) Day { return Day(min(max(at, 0)/dayLength, math.MaxUint32)) }

// Start is the first instant of the day.
func (d Day) Start() domain.Instant { return domain.Instant(d) * dayLength }

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

// DayRow is what happened in one currency on one day, and the present statuses
// of the payments that were created on it.
type DayRow struct {
	Day      Day
	Currency domain.Currency
	Created  Tally
	Paid     Tally // payments that were paid on the day, whenever they were created
	Refunded Tally // refunds that succeeded on the day, likewise
	ByStatus ByStatus
}

// ByStatus are tallies in the order of domain.PaymentStatuses.
type ByStatus [5]Tally

// at is the tally of a status, nil for none.
func (b *ByStatus) at(s domain.PaymentStatus) *Tally {
	switch s {
	case domain.Created:
		return &b[0]
	case domain.AwaitingPayment:
		return &b[1]
	case domain.Paid:
		return &b[2]
	case domain.Expired:
		return &b[3]
	case domain.Failed:
		return &b[4]
	}
	return nil
}

// daysView adds up payments by day: project, 0, the day as 4 bytes, currency.
// Its rows are so few that those of a report are read one by one.
type daysView struct{ *table.Table[*DayRow] }

func newDaysView(db *table.DB) *daysView {
	v := &daysView{table.New(db, "days", appendDay, parseDay)}
	v.Cache(1 << 10)
	return v
}

func (v *daysView) fold(c *change) {
	for _, d := range c.days {
		if d.made {
			v.Insert(d.key, d.row)
		} else {
			v.Replace(d.key, d.row)
		}
	}
}

func dayKey(project string, d Day, c domain.Currency) string {
	var day [4]byte
	binary.BigEndian.PutUint32(day[:], uint32(d))
	var b strings.Builder
	b.Grow(len(project) + 1 + len(day) + len(c))
	b.WriteString(project)
	b.WriteByte(0)
	b.Write(day[:])
	b.WriteString(string(c))
	return b.String()
}

// dayEntry is a row of the view as an event leaves it.
type dayEntry struct {
	key  string
	row  *DayRow
	made bool // there was no row before
}

// count works out the rows that an event of a payment leads to.
func (v *daysView) count(c *change) ([]dayEntry, error) {
	out, p := c.days[:0], &c.paymentAfter.Payment
	var before domain.PaymentStatus
	if c.paymentBefore != nil {
		before = c.paymentBefore.Payment.Status
	}
	on := func(d Day) (*DayRow, error) {
		for _, o := range out {
			if o.row.Day == d {
				return o.row, nil
			}
		}
		next := DayRow{Day: d, Currency: p.Currency}
		key := dayKey(p.Project, d, p.Currency)
		row, found, err := v.Get(key)
		if err != nil {
			return nil, err
		}
		if found {
			next = *row
			next.Day, next.Currency = d, p.Currency
		}
		out = append(out, dayEntry{key, &next, !found})
		return &next, nil
	}
	today := DayOf(domain.InstantOf(c.Record.At))
	if p.Status != before {
		row, err := on(DayOf(p.CreatedAt))
		if err != nil {
			return nil, err
		}
		if t := row.ByStatus.at(before); t != nil {
			*t = t.add(-1, p.Amount)
		} else {
			row.Created = row.Created.add(1, p.Amount)
		}
		if t := row.ByStatus.at(p.Status); t != nil {
			*t = t.add(1, p.Amount)
		}
		if p.Status == domain.Paid {
			if row, err = on(today); err != nil {
				return nil, err
			}
			row.Paid = row.Paid.add(1, p.Amount)
		}
	}
	if done, ok := c.Event.(domain.RefundSucceededEvent); ok {
		row, err := on(today)
		if err != nil {
			return nil, err
		}
		if refund, ok := p.Refund(done.RefundID); ok {
			row.Refunded = row.Refunded.add(1, refund.Amount)
		}
	}
	return out, nil
}

// tallies are those of a row in the order of its form.
func (r *DayRow) tallies() []*Tally {
	all := []*Tally{&r.Created, &r.Paid, &r.Refunded}
	for i := range r.ByStatus {
		all = append(all, &r.ByStatus[i])
	}
	return all
}

// The form of a row: each tally's count as a varint and its sum as 16 bytes.
// Day and currency are in the key.
func appendDay(b []byte, r *DayRow) ([]byte, error) {
	for _, t := range r.tallies() {
		hi, lo := t.Sum.Bits()
		b = binary.AppendUvarint(b, t.Count)
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, hi), lo)
	}
	return b, nil
}

func parseDay(b []byte) (*DayRow, error) {
	d, r := boltfile.Decode(b), new(DayRow)
	for _, t := range r.tallies() {
		t.Count = d.Uint()
		if half := d.Bytes(16); half != nil {
			t.Sum = domain.SumFromBits(binary.BigEndian.Uint64(half), binary.BigEndian.Uint64(half[8:]))
		}
	}
	return r, d.End()
}

// Days lists what happened to a project's payments from one day to another,
// both included, in order of day and currency. Days on which nothing happened
// are left out.
func (v *Views) Days(ctx context.Context, project string, from, to Day) ([]DayRow, error) {
	if err := v.fresh(ctx); err != nil {
		return nil, err
	}
	if from > to {
		return nil, nil
	}
	if to == math.MaxUint32 {
		to-- // the last day there is, so that there is one behind
	}
	r := table.Range{Lo: dayKey(project, from, ""), Hi: dayKey(project, to+1, "")}
	found, err := v.days.First(ctx, r, false, math.MaxInt)
	if err != nil {
		return nil, err
	}
	out := make([]DayRow, len(found))
	for i, f := range found {
		out[i] = *f.Value
		at := dayOfKey(project, f.Key)
		out[i].Day, out[i].Currency = at.Day, at.Currency
	}
	return out, nil
}

// dayOfKey is the part of a row that is in its key.
func dayOfKey(project, key string) DayRow {
	rest := key[len(project)+1:]
	return DayRow{Day: Day(binary.BigEndian.Uint32([]byte(rest))), Currency: domain.Currency(rest[4:])}
}
