package projections

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// wordsView finds a project's payments by the words of their description:
// project, 0, word, 0, id.
type wordsView struct{ table[facts] }

func newWordsView() *wordsView {
	v := &wordsView{newTable("payments_by_word", appendFacts, parseFacts)}
	v.fill = 0.5 // as in descriptionView
	return v
}

func (*wordsView) version() int { return 1 }

func (v *wordsView) move(before, after *paymentRow) {
	p := &after.Payment
	if before != nil || p.Description == nil {
		return
	}
	var room [maxWords]string
	for _, w := range appendWords(room[:0], *p.Description) {
		v.insert(listKeyOf(p.ID, p.Project, w), factsOf(p))
	}
}

// wordStart begins the keys of every word that begins like this one.
func wordStart(project, word string) string { return listKey(project) + word }

// The bounds of what is found by words: beyond them a description is as if it
// ended there.
const (
	maxWords = 32
	maxWord  = 64 // bytes
)

// Words are the words of a text, each once, in order of the alphabet: the
// stretches of letters and digits between the word boundaries of UAX #29, in
// their case-folded form and composed (NFC). So a name with a dot or a hyphen
// is several words, and "ЗАКАЗ №17" is "заказ" and "17".
func Words(text string) []string { return appendWords(nil, text) }

func appendWords(words []string, text string) []string {
	if simple(text) {
		words = simpleWords(words, text)
	} else {
		words = unicodeWords(words, text)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// simple reports whether a text has only characters of which word boundaries,
// case and composition need no tables: ASCII and the letters of Russian.
func simple(text string) bool {
	for _, r := range text {
		if r >= utf8.RuneSelf && (r < 'А' || r > 'я') && r != 'Ё' && r != 'ё' {
			return false
		}
	}
	return true
}

func simpleWords(words []string, text string) []string {
	folded := strings.ToLower(text)
	start := -1
	for i, r := range folded + " " {
		inside := r >= utf8.RuneSelf || ('a' <= r && r <= 'z') || ('0' <= r && r <= '9')
		switch {
		case inside && start < 0:
			start = i
		case !inside && start >= 0:
			if len(words) == maxWords {
				return words
			}
			words = append(words, cutWord(folded[start:i]))
			start = -1
		}
	}
	return words
}

func unicodeWords(words []string, text string) []string {
	rest := norm.NFC.String(cases.Fold().String(norm.NFC.String(strings.ToValidUTF8(text, "\ufffd"))))
	state := -1
	for rest != "" {
		var segment string
		segment, rest, state = uniseg.FirstWordInString(rest, state)
		for w := range strings.FieldsFuncSeq(segment, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) }) {
			if len(words) == maxWords {
				return words
			}
			words = append(words, cutWord(w))
		}
	}
	return words
}

// cutWord bounds the key, at the end of a character.
func cutWord(w string) string {
	if len(w) <= maxWord {
		return w
	}
	end := maxWord
	for !utf8.RuneStart(w[end]) {
		end--
	}
	return w[:end]
}

// allBegin reports whether each of the beginnings begins one of the words.
func allBegin(words, beginnings []string) bool {
	for _, b := range beginnings {
		i, _ := slices.BinarySearch(words, b)
		if i == len(words) || !strings.HasPrefix(words[i], b) {
			return false
		}
	}
	return true
}
