package domain_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
)

// bigOf is the sum as a big.Int.
func bigOf(s domain.Sum) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(s.Hi), 64)
	return n.Add(n, new(big.Int).SetUint64(uint64(s.Lo)))
}

func drawSum(t *rapid.T, label string) domain.Sum {
	// Up to 2^125, so that two of them can be added.
	hi := rapid.Int64Range(-1<<61, 1<<61).Draw(t, label+" hi")
	if rapid.Bool().Draw(t, label+" small") {
		hi = rapid.Int64Range(-1, 0).Draw(t, label+" sign")
	}
	return domain.Sum{Hi: hi, Lo: rapid.Int64().Draw(t, label+" lo")}
}

func TestSumsAgainstBigIntegers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawSum(t, "a"), drawSum(t, "b")
		if got, want := bigOf(a.Add(b)), new(big.Int).Add(bigOf(a), bigOf(b)); got.Cmp(want) != 0 {
			t.Fatalf("%s + %s = %s, want %s", a, b, got, want)
		}
		if got, want := bigOf(a.Neg()), new(big.Int).Neg(bigOf(a)); got.Cmp(want) != 0 {
			t.Fatalf("-%s = %s, want %s", a, got, want)
		}
		if a.Sign() != bigOf(a).Sign() {
			t.Fatalf("sign of %s: %d", a, a.Sign())
		}
		if (a == b) != (bigOf(a).Cmp(bigOf(b)) == 0) || a.Add(a.Neg()) != (domain.Sum{}) {
			t.Fatalf("%s and %s compare wrongly", a, b)
		}
		whole, cents := new(big.Int).QuoRem(new(big.Int).Abs(bigOf(a)), big.NewInt(100), new(big.Int))
		want := whole.String() + "." + string([]byte{byte('0' + cents.Int64()/10), byte('0' + cents.Int64()%10)})
		if a.Sign() < 0 {
			want = "-" + want
		}
		if a.String() != want {
			t.Fatalf("%s, want %s", a, want)
		}
		var back domain.Sum
		if err := back.UnmarshalText([]byte(want)); err != nil || back != a {
			t.Fatalf("%s was read as %s, %v", want, back, err)
		}
	})
}

func TestSumOfAmounts(t *testing.T) {
	t.Parallel()
	for amount, want := range map[domain.Amount]string{
		0: "0.00", 1: "0.01", 10: "0.10", 150000: "1500.00", domain.MaxAmount: "999999999.99", -1: "-0.01", -99: "-0.99", -100: "-1.00",
	} {
		if got := domain.SumOf(amount).String(); got != want {
			t.Errorf("%d: %s, want %s", amount, got, want)
		}
	}
	// More than 64 bits hold.
	total, big := domain.Sum{}, domain.Sum{Lo: math.MinInt64}
	for range 4 {
		total = total.Add(big)
	}
	if got := total.String(); got != "368934881474191032.32" {
		t.Errorf("4 × 2^63: %s", got)
	}
}

func TestSumsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "-", "1", "1.0", "1.000", ".00", "+1.00", "--1.00", "01.00", "1,00", "1e2", "NaN", " 1.00", "1.00 ", "1.-1",
		"9999999999999999999999999999999999999999.00",
	} {
		var s domain.Sum
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %s", text, s)
		}
	}
}
