package books

import (
	"encoding/hex"
	"math"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/eventstore/values"
)

func TestLinesComeBackWhole(t *testing.T) {
	t.Parallel()
	sums := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) domain.Sum {
			return domain.Sum{Hi: rapid.Int64().Draw(t, "hi"), Lo: rapid.Int64().Draw(t, "lo")}
		}),
		rapid.Custom(func(t *rapid.T) domain.Sum { return domain.SumOf(domain.Amount(rapid.Int64().Draw(t, "amount"))) }),
		rapid.Just(domain.SumOf(math.MaxInt64).Add(domain.SumOf(1))), rapid.Just(domain.SumOf(math.MinInt64)),
	)
	rapid.Check(t, func(t *rapid.T) {
		want, form := journalEntry{Amount: sums.Draw(t, "amount"), Balance: sums.Draw(t, "balance")}, new(values.Structs)
		b := form.Append(nil, &want)
		var got journalEntry
		if err := form.Parse(b, &got); err != nil || got != want {
			t.Fatalf("%+v came back as %+v, %v", want, got, err)
		}
		for i := range b {
			if err := form.Parse(b[:i], new(journalEntry)); err == nil {
				t.Fatalf("%d of %d bytes are a line", i, len(b))
			}
		}
	})
}

// Rows of another form need a new views.Format.
func TestFormOfRows(t *testing.T) {
	t.Parallel()
	of := account{"prj", "RUB", domain.Bank, domain.SumOf(-3), 4, 5}
	b := new(values.Structs).Append(nil, &of)
	b = new(values.Structs).Append(b, &journalEntry{domain.SumOf(-100), domain.SumOf(200)})
	if got, want := hex.EncodeToString(b), "0670726a065255420862616e6b0105040501c701009003"; got != want {
		t.Errorf("rows are %s, and were %s: raise views.Format", got, want)
	}
}
