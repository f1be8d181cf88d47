package uitest

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func TestGlossaryFindsOtherWords(t *testing.T) {
	t.Parallel()
	const terms = "[[term]]\nen = \"log\"\nru = \"журнал\"\nnot_en = [\"ledger\"]\nnot_ru = [\"лог\"]\n"
	for name, c := range map[string]struct{ terms, en, ru, want string }{
		"none":                     {terms, "The payledger's log", "Журнал и каталог", ""},
		"another word":             {terms, "In the Ledger.", "В журнале", `says "ledger" for "log"`},
		"another word, in Russian": {terms, "In the log", "Запись в Логе", `says "лог" for "журнал"`},
		"no translation":           {"[[term]]\nen = \"log\"\n", "x", "x", "has no translation"},
		"twice":                    {terms + terms, "x", "x", "is there twice"},
	} {
		folder := fstest.MapFS{
			"locales/x.en.toml": {Data: []byte("[a]\nb = \"" + c.en + "\"\n")},
			"locales/x.ru.toml": {Data: []byte("[a]\nb = \"" + c.ru + "\"\n")},
		}
		found, err := misnomers(fstest.MapFS{"glossary.toml": {Data: []byte(c.terms)}}, []fs.FS{folder})
		if err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(found, "\n"); c.want == "" && all != "" || !strings.Contains(all, c.want) {
			t.Errorf("%s: found %q, want %q", name, all, c.want)
		}
	}
}
