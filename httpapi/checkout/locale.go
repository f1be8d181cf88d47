package checkout

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/text/currency"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/number"

	"payledger/domain"
)

const nbsp = "\u00a0"

// locale is a language with the customs of those who read it.
type locale struct {
	texts
	Lang    string // BCP 47, as in ?lang=
	Name    string // of the language, in itself
	tag     language.Tag
	chosen  bool   // by the customer, not by the browser
	decimal string // decimal sign
	months  [12]string
	// layout places day, month, hour and minute in a date.
	layout func(day int, month string, hour, minute int) string
	// money places a currency's sign.
	money func(number, sign string) string
}

// locales lists every language of the page; the first is for customers who
// read none of them.
func locales() []locale {
	return []locale{
		{
			texts: english(), Lang: "en", Name: "English", tag: language.English, decimal: ".",
			months: [12]string{
				"January", "February", "March", "April", "May", "June",
				"July", "August", "September", "October", "November", "December",
			},
			layout: func(day int, month string, hour, minute int) string {
				return fmt.Sprintf("%d %s, %02d:%02d UTC", day, month, hour, minute)
			},
			money: func(number, sign string) string {
				if len(sign) == 3 && sign[0] >= 'A' && sign[0] <= 'Z' {
					return sign + nbsp + number
				}
				return sign + number
			},
		},
		{
			texts: russian(), Lang: "ru", Name: "Русский", tag: language.Russian, decimal: ",",
			months: [12]string{
				"января", "февраля", "марта", "апреля", "мая", "июня",
				"июля", "августа", "сентября", "октября", "ноября", "декабря",
			},
			layout: func(day int, month string, hour, minute int) string {
				return fmt.Sprintf("%d %s, %02d:%02d UTC", day, month, hour, minute)
			},
			money: func(number, sign string) string { return number + nbsp + sign },
		},
	}
}

// locale is the language chosen by ?lang=, else the best the browser asks for.
func (h *handler) locale(r *http.Request) locale {
	want := r.URL.Query().Get("lang")
	for _, l := range h.languages {
		if l.Lang == want {
			l.chosen = true
			return l
		}
	}
	accepted, _, _ := language.ParseAcceptLanguage(r.Header.Get("Accept-Language"))
	_, i, _ := h.matcher.Match(accepted...)
	return h.languages[i]
}

func (h *handler) others(l locale) []locale {
	return slices.DeleteFunc(slices.Clone(h.languages), func(o locale) bool { return o.Lang == l.Lang })
}

// amount writes a sum as a reader of the language expects it: ₽1,500.00 or
// 1 500,00 ₽. Major and minor units are written apart, so no float is needed.
func (l locale) amount(a domain.Amount, c domain.Currency) string {
	major := message.NewPrinter(l.tag).Sprint(number.Decimal(int64(a) / 100))
	return l.money(fmt.Sprintf("%s%s%02d", major, l.decimal, int64(a)%100), l.sign(c))
}

// sign is the currency's sign where readers of the language cannot take it for
// another currency's, else its code.
func (l locale) sign(c domain.Currency) string {
	unit, err := currency.ParseISO(string(c))
	if err != nil {
		return string(c)
	}
	if unit == currency.RUB {
		return "₽"
	}
	return message.NewPrinter(l.tag).Sprint(currency.Symbol(unit))
}

// moment writes an instant in UTC; the page's script puts the customer's own
// time zone in its place.
func (l locale) moment(i domain.Instant) string {
	t := i.Time()
	return l.layout(t.Day(), l.months[t.Month()-1], t.Hour(), t.Minute())
}

// left writes how much time there is, in its two largest units and rounded
// down, so that it never promises too much.
func (l locale) left(d time.Duration) string {
	days, hours, minutes := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60
	switch {
	case days > 0:
		return fmt.Sprintf(l.LeftDays, days, hours)
	case hours > 0:
		return fmt.Sprintf(l.LeftHours, hours, minutes)
	case minutes > 0:
		return fmt.Sprintf(l.LeftMinutes, minutes)
	}
	return l.LeftMoment
}
