package ui

import (
	"strings"
	"testing"
	"time"

	"payledger/domain"
)

func both(t *testing.T) (en, ru *Locale) {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return s.Languages()[0], s.Languages()[1]
}

func TestValues(t *testing.T) {
	t.Parallel()
	en, ru := both(t)
	plain := func(s string) string { return strings.ReplaceAll(s, nbsp, " ") }
	for _, c := range []struct{ got, want string }{
		{en.Percent(2, 3), "66.7%"},
		{ru.Percent(2, 3), "66,7 %"},
		{ru.Percent(0, 0), "–"},
		{en.Percent(1, 1), "100.0%"},
		{ru.Amount(-123456750, domain.DefaultCurrency), "−1 234 567,50 ₽"},
		{en.Amount(-5, domain.DefaultCurrency), "−₽0.05"},
		{en.Number(-1234567), "−1,234,567"},
		{ru.Moment(0), "1 января 1970 г., 00:00 UTC"},
		{en.Moment(0), "1 January 1970, 00:00 UTC"},
		{ru.ShortMoment(0), "01.01.1970, 00:00 UTC"},
		{ru.Plural("time.minutes", 1), "1 минута"},
		{ru.Plural("time.minutes", 22), "22 минуты"},
		{ru.Plural("time.minutes", 11), "11 минут"},
		{ru.Plural("time.minutes", 1000), "1 000 минут"},
	} {
		if plain(c.got) != c.want {
			t.Errorf("%q, want %q", plain(c.got), c.want)
		}
	}
}

func TestAmounts(t *testing.T) {
	t.Parallel()
	en, ru := both(t)
	for _, c := range []struct {
		amount   domain.Amount
		currency domain.Currency
		en, ru   string
	}{
		{150000, "RUB", "₽1,500.00", "1 500,00 ₽"},
		{1, "RUB", "₽0.01", "0,01 ₽"},
		{5, "RUB", "₽0.05", "0,05 ₽"},
		{99999, "RUB", "₽999.99", "999,99 ₽"},
		{100000, "RUB", "₽1,000.00", "1 000,00 ₽"},
		{domain.MaxAmount, "RUB", "₽999,999,999.99", "999 999 999,99 ₽"},
		{123456, "USD", "$1,234.56", "1 234,56 $"},
		{123456, "EUR", "€1,234.56", "1 234,56 €"},
		{123456, "CHF", "CHF 1,234.56", "1 234,56 CHF"},
		{123456, "KZT", "KZT 1,234.56", "1 234,56 KZT"},
		{123456, "AUD", "A$1,234.56", "1 234,56 A$"},
		{123456, "XXQ", "XXQ 1,234.56", "1 234,56 XXQ"},
	} {
		plain := func(s string) string { return strings.ReplaceAll(s, nbsp, " ") }
		if got := plain(en.Amount(c.amount, c.currency)); got != c.en {
			t.Errorf("en: %q, want %q", got, c.en)
		}
		if got := plain(ru.Amount(c.amount, c.currency)); got != c.ru {
			t.Errorf("ru: %q, want %q", got, c.ru)
		}
	}
	if s := ru.Amount(150000, "RUB"); strings.Contains(s, " ") {
		t.Errorf("%q can be broken over two lines", s)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	en, ru := both(t)
	plain := func(s string) string { return strings.ReplaceAll(s, nbsp, " ") }
	for d, want := range map[time.Duration][2]string{
		0:                               {"less than a minute", "меньше минуты"},
		59 * time.Second:                {"less than a minute", "меньше минуты"},
		time.Minute:                     {"1 minute", "1 минута"},
		time.Hour - time.Millisecond:    {"59 minutes", "59 минут"},
		61 * time.Minute:                {"1 hour 1 minute", "1 час 1 минута"},
		24*time.Hour - time.Millisecond: {"23 hours 59 minutes", "23 часа 59 минут"},
		90 * 24 * time.Hour:             {"90 days", "90 дней"},
	} {
		if got := [2]string{plain(en.Left(d)), plain(ru.Left(d))}; got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	at := domain.InstantOf(time.Date(2027, 3, 5, 4, 7, 59, 0, time.UTC))
	if got := [2]string{plain(en.Near(at)), plain(ru.Near(at))}; got != [2]string{"5 March, 04:07 UTC", "5 марта, 04:07 UTC"} {
		t.Errorf("%q", got)
	}
}

// In writes times in a zone, which the script then leaves as they are.
func TestTimesInAZone(t *testing.T) {
	t.Parallel()
	en, _ := both(t)
	at := domain.InstantOf(time.Date(2026, 11, 20, 23, 30, 0, 0, time.UTC))
	for _, tt := range []struct {
		name    string
		seconds int
		want    string
	}{
		{"UTC", 0, "20 November 2026, 23:30 UTC|20 Nov 2026, 23:30|20 November, 23:30 UTC"},
		{"MSK", 3 * 3600, "21 November 2026, 02:30 UTC+3|21 Nov 2026, 02:30|21 November, 02:30 UTC+3"},
		{"IST", 5*3600 + 1800, "21 November 2026, 05:00 UTC+5:30|21 Nov 2026, 05:00|21 November, 05:00 UTC+5:30"},
		{"NST", -3*3600 - 1800, "20 November 2026, 20:00 UTC−3:30|20 Nov 2026, 20:00|20 November, 20:00 UTC−3:30"},
	} {
		l := en.In(time.FixedZone(tt.name, tt.seconds))
		got := strings.ReplaceAll(l.Moment(at)+"|"+l.ShortMoment(at)+"|"+l.Near(at), "\u00a0", " ")
		if got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
		if html := string(l.ShortTime(at)); strings.Contains(html, "data-local") || !strings.Contains(html, `datetime="2026-11-20T23:30:00.000Z"`) {
			t.Errorf("%s: %s", tt.name, html)
		}
	}
}
