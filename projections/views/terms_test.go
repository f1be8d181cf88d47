package views

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"payledger/projections/projectiontest"
)

func TestSearchTerms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                             "",
		" - № / \u00a0":                "",
		"ЗАКАЗ №17":                    "17 заказ",
		"order-1042, Order_1042":       "1042 order",
		"Ёлка и ёж":                    "ёж ёлка и",
		"anna@example.com":             "anna com example",
		"1,234.50":                     "1 234 50",
		"STRASSE Straße":               "strasse",
		"don\u2019t":                   "don t",
		"cafe\u0301 CAFÉ":              "café",
		"東京都":                          "京 東 都",
		"αΣ ας":                        "ασ",
		"2×3 🎁 gift":                   "2 3 gift",
		"a\u0000b":                     "a b",
		"\xff order \xd0":              "order",
		strings.Repeat("я", 33) + " z": strings.Repeat("я", 32) + " z",
	} {
		got := slices.Sorted(strings.FieldsSeq(want))
		if w := SearchTerms(text); !slices.Equal(w, got) {
			t.Errorf("%q has the terms %q, want %q", text, w, got)
		}
	}
	for text, want := range projectiontest.TermsOf() {
		if w := SearchTerms(text); !slices.Equal(w, want) {
			t.Errorf("%q has the terms %q, want %q", text, w, want)
		}
	}
}

// TestSimpleTermsAreTheSame compares the fast way with that by Unicode tables.
func TestSimpleTermsAreTheSame(t *testing.T) {
	t.Parallel()
	chars := rapid.OneOf(
		rapid.RuneFrom([]rune("aZ09.,:;'_-@ \"\r\n\tёЁжЙ")),
		rapid.Custom(func(t *rapid.T) rune { return rune(rapid.IntRange(0, 127).Draw(t, "ascii")) }),
		rapid.Custom(func(t *rapid.T) rune { return rune(rapid.IntRange('А', 'я').Draw(t, "russian")) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(chars, 0, 80, -1).Draw(t, "text")
		if !simple(text) {
			t.Fatalf("%q is not simple", text)
		}
		if a, b := simpleTerms(nil, text), unicodeTerms(nil, text); !slices.Equal(a, b) {
			t.Fatalf("%q: %q and %q", text, a, b)
		}
	})
}

func TestSearchTermsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "bytes"))
		})).Draw(t, "text")
		terms := SearchTerms(text)
		if len(terms) > maxTerms || !slices.IsSorted(terms) {
			t.Fatalf("%q", terms)
		}
		for _, w := range terms {
			if w == "" || len(w) > maxTerm || !utf8.ValidString(w) || strings.ContainsRune(w, 0) {
				t.Fatalf("%q is no search term", w)
			}
		}
		if !allBegin(terms, terms) {
			t.Fatalf("%q do not begin themselves", terms)
		}
	})
}

func BenchmarkSearchTerms(b *testing.B) {
	for name, text := range map[string]string{"simple": "Заказ №10423 order-10423", "russian": "Заказ 10423 от 20 ноября", "other": "Straße 10423 — café"} {
		b.Run(name, func(b *testing.B) {
			var room [maxTerms]string
			b.ReportAllocs()
			for range b.N {
				if len(appendTerms(room[:0], text)) == 0 {
					b.Fatal("no terms")
				}
			}
		})
	}
}
