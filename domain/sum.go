package domain

import (
	"errors"
	"math/big"
	"math/bits"

	"github.com/cockroachdb/apd/v3"
)

// Sum is a signed sum of money in minor units: debits are positive, credits
// negative. It has 128 bits, so that sums of amounts cannot overflow: 64 would
// be full after 92 million payments of MaxAmount. Equal sums are equal by ==.
type Sum struct {
	hi int64
	lo uint64
}

// SumOf is the amount as a sum.
func SumOf(a Amount) Sum { return Sum{hi: int64(a) >> 63, lo: uint64(a)} }

// Add is s + o.
func (s Sum) Add(o Sum) Sum {
	lo, carry := bits.Add64(s.lo, o.lo, 0)
	return Sum{hi: s.hi + o.hi + int64(carry), lo: lo}
}

// Neg is −s.
func (s Sum) Neg() Sum {
	lo, borrow := bits.Sub64(0, s.lo, 0)
	return Sum{hi: -s.hi - int64(borrow), lo: lo}
}

// Sign is -1, 0 or 1.
func (s Sum) Sign() int {
	switch {
	case s.hi < 0:
		return -1
	case s == Sum{}:
		return 0
	}
	return 1
}

// Bits are the two halves of the sum in two's complement, the form in which
// it is stored.
func (s Sum) Bits() (hi, lo uint64) { return uint64(s.hi), s.lo }

// SumFromBits is the sum that Bits took apart.
func SumFromBits(hi, lo uint64) Sum { return Sum{hi: int64(hi), lo: lo} }

// String writes the sum as "D.DD", with a minus sign before a credit.
func (s Sum) String() string {
	size := s
	if s.hi < 0 {
		size = s.Neg()
	}
	n := new(big.Int).SetUint64(uint64(size.hi))
	n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(size.lo))
	d := apd.Decimal{Negative: s.hi < 0, Exponent: -minorDigits}
	d.Coeff.SetMathBigInt(n)
	return d.Text('f')
}

// MarshalText writes the sum as String does.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

var errSum = errors.New("sum: want digits, a point and two digits, with a minus sign before a credit")

// UnmarshalText reads what MarshalText wrote.
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
	v := Sum{hi: n.Rsh(n, 64).Int64(), lo: lo}
	if negative {
		v = v.Neg()
	}
	*s = v
	return nil
}
