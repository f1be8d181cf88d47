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

// Moment writes an instant in UTC; the script puts the reader's own time zone
// in its place where it stands in a <time> that Time made.
func (l *Locale) Moment(i domain.Instant) string {
	return l.Day(i) + i.Time().Format(", 15:04") + nbsp + "UTC"
}

// Near writes an instant in UTC without its year, where that is plain.
func (l *Locale) Near(i domain.Instant) string {
	t := i.Time()
	return fmt.Sprintf("%d"+nbsp+"%s, %02d:%02d"+nbsp+"UTC", t.Day(), l.months[t.Month()-1], t.Hour(), t.Minute())
}

// Day writes the day of an instant in UTC.
func (l *Locale) Day(i domain.Instant) string {
	t := i.Time()
	return strings.ReplaceAll(fmt.Sprintf(l.day, t.Day(), l.months[t.Month()-1], t.Year()), " ", nbsp)
}

// ShortMoment writes an instant in UTC in little room, as in tables.
func (l *Locale) ShortMoment(i domain.Instant) string {
	return l.ShortDay(i) + i.Time().Format(", 15:04") + nbsp + "UTC"
}

// ShortDay writes the day of an instant in UTC in little room.
func (l *Locale) ShortDay(i domain.Instant) string {
	return strings.ReplaceAll(i.Time().Format(l.shortDay), " ", nbsp)
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
