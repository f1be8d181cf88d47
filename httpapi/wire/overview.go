package wire

import "payledger/domain"

// Overview is what happened to payments on the days of a range, and what
// has become by now of those that were created on them.
type Overview struct {
	TimeZone   string             `json:"time_zone"` // of the days
	From       string             `json:"from"`
	To         string             `json:"to"`
	Payments   uint64             `json:"payments"`   // the project has, of all times
	Currencies []CurrencyOverview `json:"currencies"` // of which something happened, that with the highest sum paid first; else the project's first
}

// CurrencyOverview is one currency's part. Created, Paid and Refunded are the
// sums of Days.
type CurrencyOverview struct {
	Currency domain.Currency `json:"currency"`
	Days     []Day           `json:"days"` // every day of the range
	Created  Tally           `json:"created"`
	Paid     Tally           `json:"paid"`
	Refunded Tally           `json:"refunded"`
	Returned Tally           `json:"returned"` // of the payments created in the range: those of which money went back by now, and how much
	Lost     Tally           `json:"lost"`     // disputes that were lost on the days
	Back     Tally           `json:"back"`     // of what was refunded or lost, on any day: what came back on the days
	Outcomes []Outcome       `json:"outcomes"` // of the payments created in the range; every status, in order of a payment's life
}

// Day is what happened on one day.
type Day struct {
	Date     string `json:"date"`
	Created  Tally  `json:"created"`
	Paid     Tally  `json:"paid"`     // on the day, whenever they were created
	Refunded Tally  `json:"refunded"` // refunds that succeeded on the day, likewise, and those by another hand
}

// Tally is how many there are of something and what they sum up to.
type Tally struct {
	Count uint64     `json:"count"`
	Sum   domain.Sum `json:"sum"`
}

// Plus adds two tallies.
func (t Tally) Plus(o Tally) Tally { return Tally{t.Count + o.Count, t.Sum.Add(o.Sum)} }

// Outcome is how many payments have a status by now.
type Outcome struct {
	Status domain.PaymentStatus `json:"status"`
	Tally
}

// Totals are the totals of a filtered list of payments.
type Totals struct {
	Complete bool    `json:"complete"` // false: at least these, there may be more
	Count    uint64  `json:"count"`    // of the payments that were added up
	Data     []Total `json:"data"`     // by currency and status
}

// Total adds up the payments of one currency and status.
type Total struct {
	Currency domain.Currency      `json:"currency"`
	Status   domain.PaymentStatus `json:"status"`
	Tally
	Refunded Tally `json:"refunded"` // of these: those of which money went back, and how much
}
