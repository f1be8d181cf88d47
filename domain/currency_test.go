package domain_test

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/text/currency"

	"payledger/domain"
)

// TestTwoMinorDigits tries every possible code, so that it finds any mistake in the
// list.
func TestTwoMinorDigits(t *testing.T) {
	t.Parallel()
	younger := []string{"MRU", "SLE", "VED", "VES", "XCG", "ZWG"} // than the tables of x/text
	var found int
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			for c := 'A'; c <= 'Z'; c++ {
				code := string([]rune{a, b, c})
				if !domain.Currency(code).TwoMinorDigits() {
					continue
				}
				found++
				if _, err := currency.ParseISO(code); err != nil && !slices.Contains(younger, code) {
					t.Errorf("%s: %v", code, err)
				}
			}
		}
	}
	if found != 132 {
		t.Errorf("%d currencies have two minor digits, want 132", found)
	}
}

// TestNoCurrencyIsMissing compares the list with the currencies in x/text.
func TestNoCurrencyIsMissing(t *testing.T) {
	t.Parallel()
	gone := []string{"ANG", "BGN", "CUC", "HRK", "VEF"} // since the tables of x/text were made
	when := time.Date(2026, time.November, 20, 0, 0, 0, 0, time.UTC)
	for units := currency.Query(currency.Date(when)); units.Next(); {
		code := units.Unit().String()
		digits, _ := currency.Standard.Rounding(units.Unit())
		if digits == 2 && !domain.Currency(code).TwoMinorDigits() && !slices.Contains(gone, code) {
			t.Errorf("%s, in use in %s, is not listed", code, units.Region())
		}
	}
}

func TestOtherCurrenciesAreNotSupported(t *testing.T) {
	t.Parallel()
	for _, c := range []domain.Currency{
		"", " ", "   ", "R", "RU", "RUBL", "rub", "Rub", "RUВ", " RUB", "RUB ", "B R", "ED ", " AE", "RUB USD",
		"JPY", "KRW", "VND", "CLP", "ISK", "UGX", "XAF", "XOF", "XPF", // no minor digits
		"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND", // three
		"CLF", "UYW", // four
		"XXX", "XTS", "XAU", "XDR", // not of a country
		"DEM", "BGN", "HRK", "ZWL", "SLL", "ANG", "CUC", "VEF", // gone
	} {
		if c.TwoMinorDigits() {
			t.Errorf("%q passes as a currency with two minor digits", string(c))
		}
	}
}

func TestDefaultCurrency(t *testing.T) {
	t.Parallel()
	if domain.DefaultCurrency != "RUB" || !domain.DefaultCurrency.TwoMinorDigits() {
		t.Errorf("the default currency is %q", domain.DefaultCurrency)
	}
}
