package projections

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWords(t *testing.T) {
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
		if w := Words(text); !slices.Equal(w, got) {
			t.Errorf("%q has the words %q, want %q", text, w, got)
		}
	}
	for text, want := range wordsOf {
		if w := Words(text); !slices.Equal(w, want) {
			t.Errorf("%q has the words %q, want %q", text, w, want)
		}
	}
}

// TestSimpleWordsAreTheSame compares the short way with the one by tables.
func TestSimpleWordsAreTheSame(t *testing.T) {
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
		if a, b := simpleWords(nil, text), unicodeWords(nil, text); !slices.Equal(a, b) {
			t.Fatalf("%q: %q and %q", text, a, b)
		}
	})
}

func TestWordsAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "bytes"))
		})).Draw(t, "text")
		words := Words(text)
		if len(words) > maxWords || !slices.IsSorted(words) {
			t.Fatalf("%q", words)
		}
		for _, w := range words {
			if w == "" || len(w) > maxWord || !utf8.ValidString(w) || strings.ContainsRune(w, 0) {
				t.Fatalf("%q is no word", w)
			}
		}
		if !allBegin(words, words) {
			t.Fatalf("%q do not begin themselves", words)
		}
	})
}

func BenchmarkWords(b *testing.B) {
	for name, text := range map[string]string{"simple": "Заказ №10423 order-10423", "russian": "Заказ 10423 от 20 ноября", "other": "Straße 10423 — café"} {
		b.Run(name, func(b *testing.B) {
			var room [maxWords]string
			b.ReportAllocs()
			for range b.N {
				if len(appendWords(room[:0], text)) == 0 {
					b.Fatal("no words")
				}
			}
		})
	}
}
