package checkout

import (
	"os"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/ui/uitest"
)

func TestLanguages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	path := w.path(w.create(domain.AwaitingPayment))
	for _, c := range []struct{ query, accept, want string }{
		{"", "", "en"},
		{"", "ru", "ru"},
		{"", "ru-RU,ru;q=0.9,en-US;q=0.8", "ru"},
		{"", "en-US,en;q=0.9,ru;q=0.1", "en"},
		{"", "fr;q=1, ru;q=0.5", "ru"},
		{"", "zh", "en"},
		{"", "***;q=x", "en"},
		{"?lang=ru", "en", "ru"},
		{"?lang=en", "ru", "en"},
		{"?lang=RU", "en", "en"},
		{"?lang=%22%3E%3Cscript%3E", "ru", "ru"},
		{"?lang=", "ru", "ru"},
	} {
		body := get(h, path+c.query, "Accept-Language", c.accept).Body.String()
		if !strings.Contains(body, `<html lang="`+c.want+`">`) {
			t.Errorf("%s with %q: want %s, got\n%s", c.query, c.accept, c.want, body)
		}
		other := map[string]string{"en": "ru", "ru": "en"}[c.want]
		if !strings.Contains(body, `<a href="?lang=`+other+`" hreflang="`+other+`" lang="`+other+`">`) {
			t.Errorf("%s with %q: no way to the other language", c.query, c.accept)
		}
	}
}

// The words of the failure pages follow the language too, the switch is only
// where following it shows the same page again.
func TestLanguageOfFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	if body := get(h, "/p/x", "Accept-Language", "ru").Body.String(); !strings.Contains(body, "Такого платежа нет") ||
		!strings.Contains(body, "?lang=en") {
		t.Error(body)
	}
	body := send(h, w.path(w.create(domain.AwaitingPayment))+"?lang=ru", "", "pay").Body.String()
	if !strings.Contains(body, "Форма недействительна") || strings.Contains(body, "?lang=en") {
		t.Error(body)
	}
	wellFormed(t, body)
}

func TestWords(t *testing.T) {
	t.Parallel()
	uitest.Words(t, os.DirFS("."))
}
