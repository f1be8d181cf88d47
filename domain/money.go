package domain

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

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

// ParseAmount reads an amount from the text of a JSON string or number. The
// grammar is
//
//	(0|[1-9][0-9]{0,8})(\.[0-9]{1,2})?
//
// with a value of at least 0.01. The error is a *FieldError without a field
// name; its code is the first that applies: amount_precision for a plain decimal
// with more than two fraction digits, amount_too_large for one with more than
// nine integer digits, amount_format for any other mismatch, and
// amount_too_small for zero.
//
// The grammar is checked before apd reads the text, because apd also accepts "1e2", "+1", ".5" and
// "NaN".
func ParseAmount(token string) (Amount, error) {
	if a, ok := readAmount(token); ok {
		return a, nil
	}
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

// splitDecimal counts the digits before and after the point. plain reports
// whether the token is a plain decimal: digits without a leading zero, then
// optionally a point and at least one digit.
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

// AppendText appends the amount as String writes it.
func (a Amount) AppendText(b []byte) ([]byte, error) {
	if a < 0 {
		return append(b, a.String()...), nil
	}
	const unit = 100
	return appendDigits(append(strconv.AppendInt(b, int64(a/unit), 10), '.'), int(a%unit), minorDigits), nil
}

// UnmarshalText reads every form that ParseAmount reads.
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

// readAmount reads the form that String writes, in a twentieth of apd's time. ok is
// false for any other form and for an amount that is not valid.
func readAmount[T string | []byte](text T) (a Amount, ok bool) {
	point := len(text) - minorDigits - 1
	if point < 1 || point > 9 || text[point] != '.' || (text[0] == '0' && point > 1) {
		return 0, false
	}
	for i := range len(text) {
		if i == point {
			continue
		}
		if !isDigit(text[i]) {
			return 0, false
		}
		a = 10*a + Amount(text[i]-'0')
	}
	return a, a >= MinAmount
}

// Currency is an ISO 4217 code in upper case.
type Currency string

// DefaultCurrency is the currency of a payment that names none (seed 4.1).
const DefaultCurrency Currency = "RUB"

// twoMinorDigits lists the active national currencies of ISO 4217 with two
// minor digits: their amounts can be written "D.DD".
const twoMinorDigits = " AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD" +
	" CAD CDF CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD" +
	" HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK" +
	" MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB" +
	" SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD" +
	" UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG "

// TwoMinorDigits reports whether c is an ISO 4217 currency whose amounts can
// be written "D.DD"; only those can be enabled.
func (c Currency) TwoMinorDigits() bool {
	return len(c) == 3 && !strings.Contains(string(c), " ") && strings.Contains(twoMinorDigits, " "+string(c)+" ")
}

// wellFormed reports whether c has the form of an ISO 4217 code. A provider can
// report money in a currency that no project enables.
func (c Currency) wellFormed() bool {
	return len(c) == 3 && strings.Trim(string(c), "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// Sum is a signed sum of money in minor units: debits are positive, credits
// negative. It has 128 bits, so that it cannot overflow: 64 bits hold only
// 92 million payments of MaxAmount. Equal sums are equal by ==.
type Sum struct{ Hi, Lo int64 } // the halves of its two's complement

// SumOf is the amount as a sum.
func SumOf(a Amount) Sum { return Sum{int64(a) >> 63, int64(a)} }

// Add is s + o.
func (s Sum) Add(o Sum) Sum {
	lo, carry := bits.Add64(uint64(s.Lo), uint64(o.Lo), 0)
	return Sum{s.Hi + o.Hi + int64(carry), int64(lo)}
}

// Neg is −s.
func (s Sum) Neg() Sum {
	lo, borrow := bits.Sub64(0, uint64(s.Lo), 0)
	return Sum{-s.Hi - int64(borrow), int64(lo)}
}

// Compare is -1, 0 or 1 as s is below, equal to or above o.
func (s Sum) Compare(o Sum) int { return s.Add(o.Neg()).Sign() }

// Sign is -1, 0 or 1.
func (s Sum) Sign() int {
	switch {
	case s.Hi < 0:
		return -1
	case s == Sum{}:
		return 0
	}
	return 1
}

// String writes the sum as "D.DD", with a minus sign before a credit.
func (s Sum) String() string {
	size := s
	if s.Hi < 0 {
		size = s.Neg()
	}
	n := new(big.Int).SetUint64(uint64(size.Hi))
	n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(uint64(size.Lo)))
	d := apd.Decimal{Negative: s.Hi < 0, Exponent: -minorDigits}
	d.Coeff.SetMathBigInt(n)
	return d.Text('f')
}

// MarshalText writes the sum as String does.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

var errSum = errors.New("sum: want digits, a point and two digits, with a minus sign before a credit")

// UnmarshalText reads the form that MarshalText writes.
func (s *Sum) UnmarshalText(text []byte) error {
	digits := string(text)
	negative := len(digits) > 0 && digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	if _, fraction, plain := splitDecimal(digits); !plain || fraction != minorDigits {
		return errSum
	}
	n, ok := new(big.Int).SetString(digits[:len(digits)-minorDigits-1]+digits[len(digits)-minorDigits:], 10)
	if !ok || n.BitLen() > 126 {
		return errSum
	}
	lo := new(big.Int).And(n, new(big.Int).SetUint64(1<<64-1)).Uint64()
	v := Sum{n.Rsh(n, 64).Int64(), int64(lo)}
	if negative {
		v = v.Neg()
	}
	*s = v
	return nil
}
