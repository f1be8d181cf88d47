package domain

import (
	"fmt"
	"strconv"

	"github.com/cockroachdb/apd/v3"
)

// Amount is a sum of money in minor units: hundredths of a currency that has
// two minor digits. A valid payment amount lies in MinAmount … MaxAmount.
type Amount int64

// The bounds of a payment's amount: 0.01 and 999999999.99.
const (
	MinAmount Amount = 1
	MaxAmount Amount = 99_999_999_999
)

const minorDigits = 2

// ParseAmount reads the raw token of an amount, the text of a JSON string or
// number alike. The grammar is
//
//	(0|[1-9][0-9]{0,8})(\.[0-9]{1,2})?
//
// with a value of at least 0.01. The error is a *FieldError without a field
// name; its code says which rule was broken: a plain decimal with more than
// two fraction digits is amount_precision, else one with more than nine
// integer digits amount_too_large, any other mismatch amount_format, and zero
// amount_too_small.
//
// The grammar is checked before apd sees the text, because apd by itself also
// reads "1e2", "+1", ".5" and "NaN".
func ParseAmount(token string) (Amount, error) {
	integer, fraction, plain := splitDecimal(token)
	switch {
	case !plain:
		return 0, &FieldError{Code: AmountFormat}
	case fraction > minorDigits:
		return 0, &FieldError{Code: AmountPrecision}
	case integer > 9:
		return 0, &FieldError{Code: AmountTooLarge, Max: MaxAmount}
	}
	d, _, err := apd.NewFromString(token)
	if err != nil {
		return 0, &FieldError{Code: AmountFormat}
	}
	d.Exponent += minorDigits
	var whole apd.Decimal
	if cond, err := apd.BaseContext.WithPrecision(15).Quantize(&whole, d, 0); err != nil || cond.Inexact() {
		return 0, &FieldError{Code: AmountPrecision}
	}
	minor, err := whole.Int64()
	if err != nil {
		return 0, &FieldError{Code: AmountFormat}
	}
	if Amount(minor) < MinAmount {
		return 0, &FieldError{Code: AmountTooSmall, Min: MinAmount}
	}
	return Amount(minor), nil
}

// splitDecimal reports how many digits stand before and after the point, and
// whether the token is a plain decimal at all: digits without a leading zero,
// then optionally a point and at least one digit.
func splitDecimal(token string) (integer, fraction int, plain bool) {
	i := 0
	for i < len(token) && isDigit(token[i]) {
		i++
	}
	integer = i
	if integer == 0 || (integer > 1 && token[0] == '0') {
		return 0, 0, false
	}
	if i == len(token) {
		return integer, 0, true
	}
	if token[i] != '.' {
		return 0, 0, false
	}
	for i++; i < len(token) && isDigit(token[i]); i++ {
		fraction++
	}
	return integer, fraction, fraction > 0 && i == len(token)
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// String writes the amount as "D.DD", the only form in which it leaves the
// program.
func (a Amount) String() string {
	return apd.New(int64(a), -minorDigits).Text('f')
}

// MarshalText writes the amount as String does.
func (a Amount) MarshalText() ([]byte, error) { return a.AppendText(nil) }

// AppendText appends the amount as String writes it, in less time.
func (a Amount) AppendText(b []byte) ([]byte, error) {
	if a < 0 {
		return append(b, a.String()...), nil
	}
	const unit = 100
	return appendDigits(append(strconv.AppendInt(b, int64(a/unit), 10), '.'), int(a%unit), minorDigits), nil
}

// UnmarshalText reads what MarshalText wrote and anything else that
// ParseAmount takes.
func (a *Amount) UnmarshalText(text []byte) error {
	if v, ok := readAmount(text); ok {
		*a = v
		return nil
	}
	v, err := ParseAmount(string(text))
	if err != nil {
		return fmt.Errorf("amount: %w", err)
	}
	*a = v
	return nil
}

// readAmount reads what String writes of a valid amount, for which apd takes
// long. false means nothing but that it is written in some other way, or not
// valid.
func readAmount(text []byte) (a Amount, ok bool) {
	point := len(text) - minorDigits - 1
	if point < 1 || point > 9 || text[point] != '.' || (text[0] == '0' && point > 1) {
		return 0, false
	}
	for i, b := range text {
		if i == point {
			continue
		}
		if !isDigit(b) {
			return 0, false
		}
		a = 10*a + Amount(b-'0')
	}
	return a, a >= MinAmount
}
