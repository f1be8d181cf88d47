package ui

import (
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Locale is a language with its way to write numbers, money and dates.
type Locale struct {
	Lang   string // BCP 47, as in ?lang=
	Name   string // of the language, in itself
	Chosen bool   // by ?lang=, not by the browser

	zone      *time.Location // of the times that are written; nil: UTC, until the script puts the reader's own
	tag       language.Tag
	texts     *i18n.Localizer
	ids       map[string]bool
	printer   *message.Printer
	decimal   string // decimal sign
	percent   string // follows a number of percent
	months    [12]string
	day       string                           // layout of a day, %s its month
	shortDay  string                           // layout for time.Format
	withMoney func(number, sign string) string // places a currency's sign
}

const nbsp = "\u00a0"

// In is the language with times written in a time zone. The script leaves them as
// they are.
func (l *Locale) In(zone *time.Location) *Locale {
	in := *l
	in.zone = zone
	return &in
}

// languages lists every language of the pages; the first is the default.
func languages() []*Locale {
	return []*Locale{
		{
			Lang: "en", Name: "English", tag: language.English, decimal: ".", percent: "%",
			months: [12]string{
				"January", "February", "March", "April", "May", "June",
				"July", "August", "September", "October", "November", "December",
			},
			day: "%d %s %d", shortDay: "02 Jan 2006",
			withMoney: func(number, sign string) string {
				if len(sign) == 3 && sign[0] >= 'A' && sign[0] <= 'Z' {
					return sign + nbsp + number
				}
				return sign + number
			},
		},
		{
			Lang: "ru", Name: "Русский", tag: language.Russian, decimal: ",", percent: nbsp + "%",
			months: [12]string{
				"января", "февраля", "марта", "апреля", "мая", "июня",
				"июля", "августа", "сентября", "октября", "ноября", "декабря",
			},
			day: "%d %s %d" + nbsp + "г.", shortDay: "02.01.2006",
			withMoney: func(number, sign string) string { return number + nbsp + sign },
		},
	}
}

//go:embed locales
var ownTexts embed.FS

// loadLanguages reads the texts of every language.
func (s *Site) loadLanguages(texts []fs.FS) error {
	s.languages = languages()
	bundle := i18n.NewBundle(s.languages[0].tag)
	bundle.RegisterUnmarshalFunc("toml", toml.Unmarshal)
	ids := make(map[string]map[string]bool)
	for _, files := range append([]fs.FS{ownTexts}, texts...) {
		names, err := fs.Glob(files, "locales/*.*.toml") // not the glossary
		if err != nil {
			return err
		}
		for _, name := range names {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				return fmt.Errorf("texts: %w", err)
			}
			file, err := bundle.ParseMessageFileBytes(text, path.Base(name))
			if err != nil {
				return fmt.Errorf("texts of %s: %w", name, err)
			}
			lang := file.Tag.String()
			if ids[lang] == nil {
				ids[lang] = make(map[string]bool)
			}
			for _, m := range file.Messages {
				ids[lang][m.ID] = true
			}
		}
	}
	tags := make([]language.Tag, len(s.languages))
	for i, l := range s.languages {
		tags[i] = l.tag
		l.texts, l.ids, l.printer = i18n.NewLocalizer(bundle, l.Lang), ids[l.Lang], message.NewPrinter(l.tag)
	}
	matcher := language.NewMatcher(tags)
	s.match = func(acceptLanguage string) *Locale {
		accepted, _, _ := language.ParseAcceptLanguage(acceptLanguage)
		_, i, _ := matcher.Match(accepted...)
		return s.languages[i]
	}
	return nil
}

const (
	langParameter = "lang"
	langCookie    = "lang"
	langMaxAge    = 365 * 24 * 60 * 60 // seconds
)

// Locale is the language that ?lang= names, else the best the browser asks
// for.
func (s *Site) Locale(r *http.Request) *Locale {
	if l := s.language(r.URL.Query().Get(langParameter)); l != nil {
		chosen := *l
		chosen.Chosen = true
		return &chosen
	}
	return s.match(r.Header.Get("Accept-Language"))
}

// RememberedLocale is Locale, but a choice by ?lang= is stored in a cookie for everything below the
// path.
func (s *Site) RememberedLocale(w http.ResponseWriter, r *http.Request, path string) *Locale {
	l := s.Locale(r)
	if l.Chosen {
		http.SetCookie(w, &http.Cookie{ //nolint:gosec // a language is no secret, and plain http must do
			Name: langCookie, Value: l.Lang, Path: path, MaxAge: langMaxAge, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
		return l
	}
	if c, err := r.Cookie(langCookie); err == nil {
		if kept := s.language(c.Value); kept != nil {
			return kept
		}
	}
	return l
}

func (s *Site) language(lang string) *Locale {
	for _, l := range s.languages {
		if l.Lang == lang {
			return l
		}
	}
	return nil
}

// Languages are all languages, the default first.
func (s *Site) Languages() []*Locale { return s.languages }

// T is the word of an id. Arguments come in pairs of name and value. An id without a word is a
// mistake of the program: T panics, which html/template turns into an error.
func (l *Locale) T(id string, args ...any) string {
	return l.localize(&i18n.LocalizeConfig{MessageID: id, TemplateData: pairs(id, args)})
}

// Plural is the word of an id in the plural form for n, which is its argument Count.
func (l *Locale) Plural(id string, n int, args ...any) string {
	data := pairs(id, args)
	data["Count"] = l.Number(int64(n))
	return l.localize(&i18n.LocalizeConfig{MessageID: id, PluralCount: n, TemplateData: data})
}

// Has reports whether there is a word of that id.
func (l *Locale) Has(id string) bool { return l.ids[id] }

func (l *Locale) localize(c *i18n.LocalizeConfig) string {
	if !l.ids[c.MessageID] {
		panic(fmt.Sprintf("no word %q in %s", c.MessageID, l.Lang))
	}
	text, err := l.texts.Localize(c)
	if err != nil {
		panic(fmt.Sprintf("word %q in %s: %v", c.MessageID, l.Lang, err))
	}
	return text
}

func pairs(id string, args []any) map[string]any {
	data := make(map[string]any, len(args)/2+1)
	for i := 0; i+1 < len(args); i += 2 {
		name, ok := args[i].(string)
		if !ok {
			panic(fmt.Sprintf("word %q: argument %d is not a name", id, i))
		}
		data[name] = args[i+1]
	}
	if len(args)%2 != 0 {
		panic(fmt.Sprintf("word %q: an argument has no value", id))
	}
	return data
}
