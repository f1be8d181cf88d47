package uitest

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// Words that are in order have no fault, and each fault is found.
func TestWordsFindsFaults(t *testing.T) {
	t.Parallel()
	const en = "[a]\ntitle = \"Hello {{.Name}}\"\n[a.count]\none = \"{{.Count}} day\"\nother = \"{{.Count}} days\"\n"
	const ru = "[a]\ntitle = \"Привет, {{.Name}}\"\n[a.count]\none = \"{{.Count}} день\"\nfew = \"{{.Count}} дня\"\n" +
		"many = \"{{.Count}} дней\"\nother = \"{{.Count}} дня\"\n"
	const html = `{{.T "a.title"}} {{.Plural "a.count" 1}}`
	for name, c := range map[string]struct{ en, ru, html, want string }{
		"none":               {en, ru, html, ""},
		"used by its prefix": {en, ru, `{{.T (print "a." .X)}}`, ""},
		"a missing word":     {en, strings.Replace(ru, "title", "other_title", 1), html, "ru: there is no a.title"},
		"a word too many":    {en, ru + "more = \"x\"\n", html, "ru: a.count has the forms [few many more one other]"},
		"not in English":     {en, "[b]\nx = \"x\"\n" + ru, html, "ru: b.x is not there in English"},
		"an argument":        {en, strings.Replace(ru, "{{.Name}}", "{{.Who}}", 1), html, "ru: a.title (other) has the arguments [Who], want [Name]"},
		"a missing form":     {en, strings.Replace(ru, "few", "feww", 1), html, "ru: a.count has the forms"},
		"an empty word":      {en, strings.Replace(ru, "Привет, {{.Name}}", " ", 1), html, "ru: a.title (other) is empty"},
		"used nowhere":       {en, ru, `{{.T "a.title"}}`, "a.count is not used"},
		"a key of go-i18n's": {en + "[b]\nid = \"x\"\n", ru + "[b]\nid = \"x\"\n", html + `"b.id"`, "go-i18n reserves"},
		"one language":       {en, "", html, "there are words in 1 languages"},
		"something else":     {en + "[b]\nn = 1\n", ru, html, "b.n is a int64"},
	} {
		folder := fstest.MapFS{"locales/x.en.toml": {Data: []byte(c.en)}, "page.html": {Data: []byte(c.html)}}
		if c.ru != "" {
			folder["locales/x.ru.toml"] = &fstest.MapFile{Data: []byte(c.ru)}
		}
		found, err := faultsIn(folder, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" && len(found) > 0 || c.want != "" && !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, c.want) }) {
			t.Errorf("%s: found %q, want %q", name, found, c.want)
		}
	}
}
