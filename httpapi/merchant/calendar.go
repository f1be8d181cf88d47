package merchant

import (
	"fmt"
	"time"
	_ "time/tzdata" // for images without the database: the machine's own is preferred

	"payledger/domain"
)

// Day is a date, counted in days from 1970-01-01. It has no zone.
type Day int32

// ParseDay reads a date such as 2026-11-20.
func ParseDay(s string) (Day, error) {
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, fmt.Errorf("a day: %w", err)
	}
	if t.Unix() < 0 {
		return 0, fmt.Errorf("a day: %s is before 1970", s)
	}
	return Day(t.Unix() / secondsADay), nil
}

const secondsADay = 24 * 60 * 60

func (d Day) utc() time.Time { return time.Unix(int64(d)*secondsADay, 0).UTC() }

// String writes the date as ParseDay reads it.
func (d Day) String() string { return d.utc().Format(time.DateOnly) }

// Calendar has the days of a time zone: which day an instant is on, and when a day
// begins. A day has 24 hours, or 23 or 25 where the clocks are changed; it need not
// begin at midnight, which clocks that are changed then skip. The zero value is that
// of UTC. It is safe for concurrent use.
//
// Every present zone is some quarter hours away from UTC. The sums of the views are
// kept by the quarter hour for that reason (see package views).
type Calendar struct{ zone *time.Location }

// LoadCalendar finds the calendar of a zone of the IANA database by its name; "" is UTC.
func LoadCalendar(zone string) (Calendar, error) {
	if zone == "Local" { // to package time, what this machine is set to
		return Calendar{}, fmt.Errorf("unknown time zone %s", zone)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return Calendar{}, err
	}
	return Calendar{loc}, nil
}

// Zone is the time zone.
func (c Calendar) Zone() *time.Location {
	if c.zone == nil {
		return time.UTC
	}
	return c.zone
}

// Day is the day of an instant.
func (c Calendar) Day(at domain.Instant) Day {
	y, m, d := at.Time().In(c.Zone()).Date()
	return Day(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / secondsADay)
}

// Start is the first instant of a day.
func (c Calendar) Start(d Day) domain.Instant {
	const furthestEast = 14 * time.Hour // the first zone in which the day begins
	midnight := d.utc()
	at := midnight.Add(-furthestEast).In(c.Zone())
	for {
		_, offset := at.Zone()
		_, change := at.ZoneBounds()
		last := !change.After(at) // of the changes that are known
		begins := midnight.Add(-time.Duration(offset) * time.Second)
		if last || begins.Before(change) {
			return domain.InstantOf(begins)
		}
		if at = change; c.Day(domain.InstantOf(at)) >= d { // the clocks skip midnight
			return domain.InstantOf(at)
		}
	}
}
