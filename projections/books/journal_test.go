package books

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
)

func TestLinesComeBackWhole(t *testing.T) {
	t.Parallel()
	sums := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) domain.Sum {
			return domain.SumFromBits(rapid.Uint64().Draw(t, "hi"), rapid.Uint64().Draw(t, "lo"))
		}),
		rapid.Custom(func(t *rapid.T) domain.Sum { return domain.SumOf(domain.Amount(rapid.Int64().Draw(t, "amount"))) }),
		rapid.Just(domain.SumOf(math.MaxInt64).Add(domain.SumOf(1))), rapid.Just(domain.SumOf(math.MinInt64)),
	)
	rapid.Check(t, func(t *rapid.T) {
		want := journalEntry{amount: sums.Draw(t, "amount"), balance: sums.Draw(t, "balance")}
		b, err := appendJournal(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseJournal(b)
		if err != nil || got != want {
			t.Fatalf("%+v came back as %+v, %v", want, got, err)
		}
		for i := range b {
			if _, err := parseJournal(b[:i]); err == nil {
				t.Fatalf("%d of %d bytes are a line", i, len(b))
			}
		}
	})
}
