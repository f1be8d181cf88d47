package views

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"payledger/projections/table"
)

// termsView finds a project's payments by the search terms of their description:
// project, 0, term, 0, id.
type termsView struct{ *table.Table[facts] }

func newTermsView(db *table.DB) *termsView {
	v := &termsView{table.New(db, "payments_by_term", appendFacts, parseFacts)}
	v.FillPercent = textFill
	return v
}

func (v *termsView) update(before, after *PaymentRow) {
	p := &after.Payment
	var buf [maxTerms]string
	if before == nil && p.Description != nil {
		for _, t := range appendTerms(buf[:0], *p.Description) {
			v.Insert(listKeyOf(p.ID, p.Project, t), factsOf(p))
		}
	}
	if before != nil && before.Payment.Description != nil && p.Description == nil {
		for _, t := range appendTerms(buf[:0], *before.Payment.Description) {
			v.Delete(listKeyOf(p.ID, p.Project, t))
		}
	}
}

// termStart begins the keys of every term that begins like this one.
func termStart(project, term string) string { return listKey(project) + term }

// A description is searched by its first maxTerms terms, and by the first
// maxTerm bytes of each.
const (
	maxTerms = 32
	maxTerm  = 64
)

// SearchTerms are the words of a text, each once, in alphabetical order: the
// runs of letters and digits between the word boundaries of UAX #29, in
// their case-folded form and composed (NFC). So a name with a dot or a hyphen
// is several terms, and "ЗАКАЗ №17" is "заказ" and "17".
func SearchTerms(text string) []string { return appendTerms(nil, text) }

func appendTerms(terms []string, text string) []string {
	if simple(text) {
		terms = simpleTerms(terms, text)
	} else {
		terms = unicodeTerms(terms, text)
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

// simple reports whether a text consists only of ASCII and Russian letters, whose word boundaries,
// case and composition need no Unicode tables.
func simple(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r >= utf8.RuneSelf && (r < 'А' || r > 'я') && r != 'Ё' && r != 'ё'
	})
}

func simpleTerms(terms []string, text string) []string {
	folded := strings.ToLower(text)
	start := -1
	for i, r := range folded + " " {
		inside := r >= utf8.RuneSelf || ('a' <= r && r <= 'z') || ('0' <= r && r <= '9')
		switch {
		case inside && start < 0:
			start = i
		case !inside && start >= 0:
			if len(terms) == maxTerms {
				return terms
			}
			terms = append(terms, cutTerm(folded[start:i]))
			start = -1
		}
	}
	return terms
}

func unicodeTerms(terms []string, text string) []string {
	rest := norm.NFC.String(cases.Fold().String(norm.NFC.String(strings.ToValidUTF8(text, "\ufffd"))))
	state := -1
	for rest != "" {
		var segment string
		segment, rest, state = uniseg.FirstWordInString(rest, state)
		for w := range strings.FieldsFuncSeq(segment, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) }) {
			if len(terms) == maxTerms {
				return terms
			}
			terms = append(terms, cutTerm(w))
		}
	}
	return terms
}

// cutTerm bounds a key, between two characters.
func cutTerm(w string) string {
	if len(w) <= maxTerm {
		return w
	}
	end := maxTerm
	for !utf8.RuneStart(w[end]) {
		end--
	}
	return w[:end]
}

// allBegin reports whether each of the prefixes begins one of the terms, which
// are in alphabetical order.
func allBegin(terms, prefixes []string) bool {
	for _, p := range prefixes {
		i, _ := slices.BinarySearch(terms, p)
		if i == len(terms) || !strings.HasPrefix(terms[i], p) {
			return false
		}
	}
	return true
}
