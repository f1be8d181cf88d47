package ui

import (
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
)

func TestReadAmount(t *testing.T) {
	t.Parallel()
	en, ru := both(t)
	of := []domain.Currency{"RUB", "USD", "EUR"}
	for _, c := range []struct{ text, en, ru string }{
		{"1500", "1500", "1500"},
		{"1500.5", "1500.5", "1500.5"},
		{"1500,50", "1500.50", "1500.50"},
		{" 1 500,50 ₽ ", "1500.50 RUB", "1500.50 RUB"},
		{"1\u00a0500,50\u00a0₽", "1500.50 RUB", "1500.50 RUB"},
		{"1\u202f500,50\u202f₽", "1500.50 RUB", "1500.50 RUB"},
		{"1\u2009234\u2009567.89", "1234567.89", "1234567.89"},
		{"$1,500.50", "1500.50 USD", "1500.50 USD"},
		{"₽1,500.50", "1500.50 RUB", "1500.50 RUB"},
		{"usd 7", "7 USD", "7 USD"},
		{"7 EUR", "7 EUR", "7 EUR"},
		{"7 руб.", "7 RUB", "7 RUB"},
		{"1.500,50", "1500.50", "1500.50"},
		{"1,500,000", "1500000", "1500000"},
		{"1,500", "1500", "1.500"}, // too many digits, in Russian
		{"1.500", "1.500", "1.500"},
		{"1,500.500", "1500.500", "1500.500"},
		// What is no amount stays as it is.
		{"", "", ""},
		{"x", "x", "x"},
		{"-5", "-5", "-5"},
		{"1 50", "1 50", "1 50"},
		{"1,50,000", "1,50,000", "1,50,000"},
		{"1500 £", "1500 £", "1500 £"},
		{"$5 USD", "$5 USD", "$5 USD"},
		{"1500.", "1500.", "1500."},
		{"1e3", "1e3", "1e3"},
		{"1..5", "1..5", "1..5"},
		{"order 1500", "order 1500", "order 1500"},
		{"١٥٠٠", "١٥٠٠", "١٥٠٠"},
	} {
		for l, want := range map[*Locale]string{en: c.en, ru: c.ru} {
			got, named := l.ReadAmount(c.text, of)
			if named != "" {
				got += " " + string(named)
			}
			if got != want {
				t.Errorf("%s: %q is %q, want %q", l.Lang, c.text, got, want)
			}
		}
	}
}

// What is shown can be entered, in each language, and is read again as it is in
// the other one.
func TestAmountsAreReadAsTheyAreShown(t *testing.T) {
	t.Parallel()
	en, ru := both(t)
	of := []domain.Currency{"RUB", "USD", "EUR", "KZT", "GBP"}
	rapid.Check(t, func(t *rapid.T) {
		a := domain.Amount(rapid.Int64Range(1, int64(domain.MaxAmount)).Draw(t, "amount"))
		c := rapid.SampledFrom(of).Draw(t, "currency")
		for _, shown := range []*Locale{en, ru} {
			for _, entered := range []*Locale{en, ru} {
				got, named := entered.ReadAmount(shown.Amount(a, c), of)
				if got != a.String() || named != c {
					t.Fatalf("%s is read as %s %s in %s", shown.Amount(a, c), got, named, entered.Lang)
				}
			}
			if got, _ := shown.ReadAmount(shown.Figure(a), nil); got != a.String() {
				t.Fatalf("%s is read as %s", shown.Figure(a), got)
			}
		}
	})
}
