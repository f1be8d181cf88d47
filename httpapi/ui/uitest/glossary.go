package uitest

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/BurntSushi/toml"
)

// term is a term of the glossary with its one translation, and the beginnings of
// words that no text may use for it.
type term struct {
	En    string   `toml:"en"`
	Ru    string   `toml:"ru"`
	NotEn []string `toml:"not_en"`
	NotRu []string `toml:"not_ru"`
}

// Glossary checks the texts in locales/ of each folder against the terms of
// glossary.toml in the folder of terms: none uses another word for one of them.
func Glossary(t *testing.T, terms fs.FS, folders ...fs.FS) {
	t.Helper()
	found, err := misnomers(terms, folders)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

func misnomers(terms fs.FS, folders []fs.FS) (faults, error) {
	var f faults
	text, err := fs.ReadFile(terms, "glossary.toml")
	if err != nil {
		return nil, err
	}
	var glossary struct {
		Terms []term `toml:"term"`
	}
	if _, err := toml.Decode(string(text), &glossary); err != nil {
		return nil, err
	}
	for i, term := range glossary.Terms {
		if term.En == "" || term.Ru == "" {
			f.add("the term %d has no translation", i+1)
		}
		for _, other := range glossary.Terms[:i] {
			if other.En == term.En || other.Ru == term.Ru {
				f.add("%s, %s: the term is there twice", term.En, term.Ru)
			}
		}
	}
	for _, folder := range folders {
		languages, err := f.read(folder)
		if err != nil {
			return nil, err
		}
		for _, term := range glossary.Terms {
			f.avoid(languages["en"], term.En, term.NotEn)
			f.avoid(languages["ru"], term.Ru, term.NotRu)
		}
	}
	return f, nil
}

// avoid finds texts that use another word for a term.
func (f *faults) avoid(texts map[string]word, term string, others []string) {
	for _, id := range slices.Sorted(maps.Keys(texts)) {
		for _, form := range slices.Sorted(maps.Keys(texts[id])) {
			for _, other := range others {
				if hasWord(texts[id][form], other) {
					f.add("%s: %q says %q for %q", id, texts[id][form], other, term)
				}
			}
		}
	}
}

// hasWord reports whether a word of the text begins so, in any case.
func hasWord(text, beginning string) bool {
	text = " " + strings.ToLower(text)
	for at := 0; ; {
		i := strings.Index(text[at:], beginning)
		if i < 0 {
			return false
		}
		at += i
		if before := []rune(text[:at]); !unicode.IsLetter(before[len(before)-1]) {
			return true
		}
		at += len(beginning)
	}
}
