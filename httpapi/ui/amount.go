package ui

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/currency"

	"payledger/domain"
)

// exampleAmount is the amount that hints and errors show as an example.
const exampleAmount = domain.Amount(150050)

// Amount writes a sum as a reader of the language expects it: ₽1,500.00 or
// 1 500,00 ₽. Major and minor units are written apart, so no float is needed.
func (l *Locale) Amount(a domain.Amount, c domain.Currency) string {
	sign := ""
	if a < 0 {
		sign, a = minus, -a
	}
	return sign + l.withMoney(l.Figure(a), l.sign(c))
}

// Figure writes an amount that is not below zero without its currency.
func (l *Locale) Figure(a domain.Amount) string {
	return fmt.Sprintf("%s%s%02d", l.Number(int64(a)/100), l.decimal, int64(a)%100)
}

// DecimalMark is the mark between the units and the minor units of an amount.
func (l *Locale) DecimalMark() string { return l.decimal }

// AmountExample is an amount in the form in which one can be entered, as hints
// and errors show it.
func (l *Locale) AmountExample() string { return l.Figure(exampleAmount) }

// sign is the currency's sign where readers of the language cannot take it for
// another currency's, else its code.
func (l *Locale) sign(c domain.Currency) string {
	unit, err := currency.ParseISO(string(c))
	if err != nil {
		return string(c)
	}
	if unit == currency.RUB {
		return "₽"
	}
	return l.printer.Sprint(currency.Symbol(unit))
}

// signs are the ways in which readers write a currency next to an amount.
func (l *Locale) signs(c domain.Currency) []string {
	all := []string{string(c), l.sign(c)}
	if unit, err := currency.ParseISO(string(c)); err == nil {
		all = append(all, l.printer.Sprint(currency.NarrowSymbol(unit)))
		if unit == currency.RUB {
			all = append(all, "руб.", "руб", "р.", "р")
		}
	}
	return all
}

// ReadAmount takes an amount as people write it, and as Amount shows it: with blanks, commas or
// points between thousands, a decimal point or comma, and the sign or the code of one of the
// currencies before or after. It returns the amount as the API takes it, and the currency, "" for
// none. A text that is no amount is returned as it is, for the API to refuse.
//
// A single comma or point before three digits is read as the language of the page writes amounts:
// 1,500 is a thousand and a half in English, and in Russian an amount with too many digits after
// the comma.
func (l *Locale) ReadAmount(text string, of []domain.Currency) (amount string, named domain.Currency) {
	digit := func(r rune) bool { return r >= '0' && r <= '9' }
	first, last := strings.IndexFunc(text, digit), strings.LastIndexFunc(text, digit)
	if first < 0 {
		return text, ""
	}
	if name := strings.TrimSpace(text[:first]) + strings.TrimSpace(text[last+1:]); name != "" {
		i := slices.IndexFunc(of, func(c domain.Currency) bool {
			return slices.ContainsFunc(l.signs(c), func(s string) bool { return strings.EqualFold(s, name) })
		})
		if i < 0 {
			return text, ""
		}
		named = of[i]
	}
	whole, fraction := text[first:last+1], ""
	if i := strings.LastIndexAny(whole, ".,"); i >= 0 && !l.groups(whole, i) {
		whole, fraction = whole[:i], "."+whole[i+1:]
	}
	if whole, ok := ungrouped(whole); ok && strings.Trim(fraction[min(1, len(fraction)):], "0123456789") == "" {
		return whole + fraction, named
	}
	return text, ""
}

// groups reports whether the last point or comma of a figure, at i, separates thousands.
func (l *Locale) groups(figure string, i int) bool {
	sign := figure[i : i+1]
	return len(figure)-i-1 == 3 && (strings.Contains(figure[:i], sign) || sign == "," && l.decimal == ".")
}

// ungrouped joins digits that are in groups of three, or in one.
func ungrouped(figure string) (string, bool) {
	figure = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' ' // also the narrow ones and those that do not break
		}
		return r
	}, figure)
	i := strings.IndexAny(figure, " ,.")
	if i < 0 {
		return figure, strings.Trim(figure, "0123456789") == ""
	}
	for n, group := range strings.Split(figure, figure[i:i+1]) {
		if strings.Trim(group, "0123456789") != "" || len(group) != 3 && n > 0 || len(group) < 1 || len(group) > 3 {
			return figure, false
		}
	}
	return strings.ReplaceAll(figure, figure[i:i+1], ""), true
}
