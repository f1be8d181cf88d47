package checkout

import (
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"payledger/domain"
)

func TestLanguages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	path := w.path(w.create(domain.AwaitingPayment))
	for _, c := range []struct{ query, accept, want string }{
		{"", "", "en"},
		{"", "ru", "ru"},
		{"", "ru-RU,ru;q=0.9,en-US;q=0.8", "ru"},
		{"", "en-US,en;q=0.9,ru;q=0.1", "en"},
		{"", "fr;q=1, ru;q=0.5", "ru"},
		{"", "zh", "en"},
		{"", "***;q=x", "en"},
		{"?lang=ru", "en", "ru"},
		{"?lang=en", "ru", "en"},
		{"?lang=RU", "en", "en"},
		{"?lang=%22%3E%3Cscript%3E", "ru", "ru"},
		{"?lang=", "ru", "ru"},
	} {
		body := get(h, path+c.query, "Accept-Language", c.accept).Body.String()
		if !strings.Contains(body, `<html lang="`+c.want+`">`) {
			t.Errorf("%s with %q: want %s, got\n%s", c.query, c.accept, c.want, body)
		}
		other := map[string]string{"en": "ru", "ru": "en"}[c.want]
		if !strings.Contains(body, `<a href="?lang=`+other+`" hreflang="`+other+`" lang="`+other+`">`) {
			t.Errorf("%s with %q: no way to the other language", c.query, c.accept)
		}
	}
}

// The words of the failure pages follow the language too, the switch is only
// where following it shows the same page again.
func TestLanguageOfFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	if body := get(h, "/p/x", "Accept-Language", "ru").Body.String(); !strings.Contains(body, "Такого платежа нет") ||
		!strings.Contains(body, "?lang=en") {
		t.Error(body)
	}
	body := send(h, w.path(w.create(domain.AwaitingPayment))+"?lang=ru", "", "pay").Body.String()
	if !strings.Contains(body, "Форма недействительна") || strings.Contains(body, "?lang=en") {
		t.Error(body)
	}
	wellFormed(t, body)
}

func TestAmounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(false).(*handler)
	en, ru := h.locale(httptest.NewRequest("GET", "/?lang=en", nil)), h.locale(httptest.NewRequest("GET", "/?lang=ru", nil))
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
		if got := plain(en.amount(c.amount, c.currency)); got != c.en {
			t.Errorf("en: %q, want %q", got, c.en)
		}
		if got := plain(ru.amount(c.amount, c.currency)); got != c.ru {
			t.Errorf("ru: %q, want %q", got, c.ru)
		}
	}
	if s := ru.amount(150000, "RUB"); strings.Contains(s, " ") {
		t.Errorf("%q can be broken over two lines", s)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	all := locales()
	en, ru := all[0], all[1]
	for d, want := range map[time.Duration][2]string{
		0:                               {"less than a minute", "меньше минуты"},
		59 * time.Second:                {"less than a minute", "меньше минуты"},
		time.Minute:                     {"1 min", "1 мин"},
		time.Hour - time.Millisecond:    {"59 min", "59 мин"},
		61 * time.Minute:                {"1 h 1 min", "1 ч 1 мин"},
		24*time.Hour - time.Millisecond: {"23 h 59 min", "23 ч 59 мин"},
		90 * 24 * time.Hour:             {"90 d 0 h", "90 дн. 0 ч"},
	} {
		if got := [2]string{en.left(d), ru.left(d)}; got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	at := domain.InstantOf(time.Date(2027, 3, 5, 4, 7, 59, 0, time.UTC))
	if got := [2]string{en.moment(at), ru.moment(at)}; got != [2]string{"5 March, 04:07 UTC", "5 марта, 04:07 UTC"} {
		t.Errorf("%q", got)
	}
	for d, want := range map[time.Duration]int{0: 0, 1: 1, time.Second: 1, time.Second + 1: 2} {
		if got := seconds(d); got != want {
			t.Errorf("seconds(%v) = %d", d, got)
		}
	}
}

// Every language says everything.
func TestNoWordIsMissing(t *testing.T) {
	t.Parallel()
	states := []state{preparing, open, closed, paid, expired, failed}
	reasons := []reason{
		noPayment, badMethod, foreignForm, unknownForm, badForm, notReady, undecided, unavailable, broken,
	}
	for _, l := range locales() {
		v := reflect.ValueOf(l.texts)
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.String && f.Len() == 0 {
				t.Errorf("%s: no %s", l.Lang, v.Type().Field(i).Name)
			}
		}
		for _, s := range states {
			if text := l.States[s]; text.Heading == "" || text.Note == "" && s != open {
				t.Errorf("%s: state %s: %+v", l.Lang, s, text)
			}
		}
		for _, r := range reasons {
			if text := l.Failures[r]; text.Heading == "" || text.Note == "" {
				t.Errorf("%s: failure %s: %+v", l.Lang, r, text)
			}
		}
		if len(l.States) != len(states) || len(l.Failures) != len(reasons) {
			t.Errorf("%s: words for states or failures that do not exist", l.Lang)
		}
		if strings.Count(l.LeftDays+l.LeftHours+l.LeftMinutes, "%d") != 5 {
			t.Errorf("%s: numbers are missing in the words for time", l.Lang)
		}
	}
}
