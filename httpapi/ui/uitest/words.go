// Package uitest is what tests of pages share: the check of their words, and a real browser. It is
// imported only by tests.
package uitest

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"golang.org/x/text/language"
)

// forms are the plural forms a language needs for whole numbers and for what
// go-i18n falls back to.
func forms(lang string) []string {
	if base, _ := language.Make(lang).Base(); base.String() == "ru" {
		return []string{"few", "many", "one", "other"}
	}
	return []string{"one", "other"}
}

// word is a message: one text, or one for each plural form.
type word map[string]string

var argument = regexp.MustCompile(`\{\{\s*\.(\w+)\s*\}\}`)

// Words checks the words of locales/ in the folder of the tested package: every id is in every
// language, with text, the same arguments, and the plural forms of that language; and each is used:
// the folder's Go files, templates or scripts have it in quotes, or its beginning, up to and with a
// dot, where the program computes the rest. used are further ids that are used, for packages whose
// words others use.
func Words(t *testing.T, folder fs.FS, used ...string) {
	t.Helper()
	faults, err := faultsIn(folder, used)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

// faults collects what is wrong.
type faults []string

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func faultsIn(folder fs.FS, used []string) (faults, error) {
	var f faults
	languages, err := f.read(folder)
	if err != nil {
		return nil, err
	}
	if len(languages) < 2 {
		f.add("there are words in %d languages", len(languages))
	}
	sources, err := texts(folder)
	if err != nil {
		return nil, err
	}
	english := languages["en"]
	for _, lang := range slices.Sorted(maps.Keys(languages)) {
		for _, id := range slices.Sorted(maps.Keys(languages[lang])) {
			if english[id] == nil {
				f.add("%s: %s is not there in English", lang, id)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(english)) {
		if !named(sources, id) && !slices.Contains(used, id) {
			f.add("%s is not used", id)
		}
		for _, lang := range slices.Sorted(maps.Keys(languages)) {
			w, ok := languages[lang][id]
			if !ok {
				f.add("%s: there is no %s", lang, id)
				continue
			}
			f.compare(lang, id, w, english[id])
		}
	}
	return f, nil
}

// compare holds a word against the English one.
func (f *faults) compare(lang, id string, w, english word) {
	has := slices.Sorted(maps.Keys(w))
	switch {
	case len(english) > 1 && !slices.Equal(has, forms(lang)):
		f.add("%s: %s has the forms %v, want %v", lang, id, has, forms(lang))
	case len(english) == 1 && len(w) != 1:
		f.add("%s: %s has plural forms, in English it has none", lang, id)
	}
	for _, form := range has {
		if strings.TrimSpace(w[form]) == "" {
			f.add("%s: %s (%s) is empty", lang, id, form)
		}
		if got, want := arguments(w[form]), arguments(english["other"]); !slices.Equal(got, want) {
			f.add("%s: %s (%s) has the arguments %v, want %v", lang, id, form, got, want)
		}
	}
}

func arguments(text string) []string {
	var all []string
	for _, m := range argument.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// read returns the words by language and id.
func (f *faults) read(folder fs.FS) (map[string]map[string]word, error) {
	names, err := fs.Glob(folder, "locales/*.*.toml")
	if err != nil {
		return nil, err
	}
	languages := make(map[string]map[string]word)
	for _, name := range names {
		lang := strings.TrimPrefix(path.Ext(strings.TrimSuffix(name, ".toml")), ".")
		if languages[lang] == nil {
			languages[lang] = make(map[string]word)
		}
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		var tree map[string]any
		if err := toml.Unmarshal(text, &tree); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		f.walk(name, "", tree, languages[lang])
	}
	return languages, nil
}

// walk puts the words of a table, whose ids begin with the prefix, into all.
func (f *faults) walk(name, prefix string, tree map[string]any, all map[string]word) {
	put := func(id string, w word) {
		if all[id] != nil {
			f.add("%s: %s is there twice", name, id)
		}
		all[id] = w
	}
	if _, plural := tree["other"].(string); plural {
		w := make(word)
		for form, text := range tree {
			w[form], _ = text.(string)
		}
		put(strings.TrimSuffix(prefix, "."), w)
		return
	}
	for key, value := range tree {
		switch v := value.(type) {
		case string:
			if slices.Contains([]string{"id", "description", "hash", "zero", "one", "two", "few", "many"}, key) {
				f.add("%s: %s%s: go-i18n reserves %q", name, prefix, key, key)
			}
			put(prefix+key, word{"other": v})
		case map[string]any:
			f.walk(name, prefix+key+".", v, all)
		default:
			f.add("%s: %s%s is a %T", name, prefix, key, v)
		}
	}
}

// texts are the sources of the folder that can name a word.
func texts(folder fs.FS) (string, error) {
	var all strings.Builder
	err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") ||
			!slices.Contains([]string{".go", ".html", ".js"}, path.Ext(name)) {
			return err
		}
		text, err := fs.ReadFile(folder, name)
		all.Write(text)
		return err
	})
	return all.String(), err
}

// named reports whether the sources have the id, or a beginning of it that
// ends in a dot, in quotes.
func named(sources, id string) bool {
	if strings.Contains(sources, `"`+id+`"`) {
		return true
	}
	for i, c := range id {
		if c == '.' && strings.Contains(sources, `"`+id[:i+1]+`"`) {
			return true
		}
	}
	return false
}
