package ui

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"golang.org/x/text/number"

	"payledger/domain"
)

// minus is the sign before a figure.
const minus = "\u2212"

// Number writes a whole number in groups of three digits.
func (l *Locale) Number(n int64) string {
	text := strings.TrimPrefix(l.printer.Sprint(number.Decimal(n)), "-")
	if n < 0 {
		return minus + strings.TrimPrefix(text, minus)
	}
	return text
}

// Percent writes how much part is of whole, to a tenth of a percent; of
// nothing it is a dash.
func (l *Locale) Percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	text := new(big.Rat).Mul(big.NewRat(part, whole), big.NewRat(100, 1)).FloatString(1)
	return strings.Replace(text, ".", l.decimal, 1) + l.percent
}

// time is an instant in the zone of the times that are written.
func (l *Locale) time(i domain.Instant) time.Time {
	if l.zone == nil {
		return i.Time()
	}
	return i.Time().In(l.zone)
}

// Offset writes how far the time of an instant is from UTC: UTC, UTC+3, UTC−9:30.
func (l *Locale) Offset(i domain.Instant) string {
	_, seconds := l.time(i).Zone()
	sign, minutes := "+", seconds/60
	if minutes < 0 {
		sign, minutes = minus, -minutes
	}
	switch {
	case minutes == 0:
		return "UTC"
	case minutes%60 == 0:
		return fmt.Sprintf("UTC%s%d", sign, minutes/60)
	}
	return fmt.Sprintf("UTC%s%d:%02d", sign, minutes/60, minutes%60)
}

// Moment writes an instant; the script converts it to the reader's time zone within a <time> of
// Time, unless In has named a zone.
func (l *Locale) Moment(i domain.Instant) string {
	return l.Day(i) + l.time(i).Format(", 15:04") + nbsp + l.Offset(i)
}

// Near writes an instant without its year, where that is plain.
func (l *Locale) Near(i domain.Instant) string {
	t := l.time(i)
	return fmt.Sprintf("%d"+nbsp+"%s, %02d:%02d"+nbsp+"%s", t.Day(), l.months[t.Month()-1], t.Hour(), t.Minute(), l.Offset(i))
}

// Day writes the day of an instant.
func (l *Locale) Day(i domain.Instant) string {
	t := l.time(i)
	return strings.ReplaceAll(fmt.Sprintf(l.day, t.Day(), l.months[t.Month()-1], t.Year()), " ", nbsp)
}

// ShortMoment writes a short form of an instant, as in tables. The zone is left out where In has
// named one: the page says it once.
func (l *Locale) ShortMoment(i domain.Instant) string {
	text := l.ShortDay(i) + l.time(i).Format(","+nbsp+"15:04")
	if l.zone == nil {
		text += nbsp + l.Offset(i)
	}
	return text
}

// ShortDay writes a short form of the day of an instant.
func (l *Locale) ShortDay(i domain.Instant) string {
	return strings.ReplaceAll(l.time(i).Format(l.shortDay), " ", nbsp)
}

// Left writes how much time there is, in its two largest units and rounded
// down, so that it never promises too much.
func (l *Locale) Left(d time.Duration) string {
	days, hours, minutes := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60
	two := func(a string, n int, b string, m int) string {
		if m == 0 {
			return l.Plural(a, n)
		}
		return l.Plural(a, n) + " " + l.Plural(b, m)
	}
	switch {
	case days > 0:
		return two("time.days", days, "time.hours", hours)
	case hours > 0:
		return two("time.hours", hours, "time.minutes", minutes)
	case minutes > 0:
		return l.Plural("time.minutes", minutes)
	}
	return l.T("time.moment")
}
