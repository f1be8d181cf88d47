package httpapi

import (
	"os"
	"slices"
	"testing"

	"github.com/BurntSushi/toml"

	"payledger/domain"
)

// TestEveryKindIsDocumentedAndNamed fails while a kind of notification lacks its
// row in the document or its words in the account.
func TestEveryKindIsDocumentedAndNamed(t *testing.T) {
	t.Parallel()
	doc, _ := contract()
	enum := func(schema, property string) (all []domain.Kind) {
		s := doc.Components.Schemas[schema].Value
		if property != "" {
			s = s.Properties[property].Value
		}
		for _, k := range s.Enum {
			all = append(all, domain.Kind(k.(string)))
		}
		return all
	}
	if got := enum("WebhookKind", ""); !slices.Equal(got, domain.Kinds()) {
		t.Errorf("WebhookKind has %v, there are %v", got, domain.Kinds())
	}
	if got := slices.Concat(enum("PaymentWebhook", "type"), enum("RefundWebhook", "type")); !slices.Equal(got, domain.Kinds()) {
		t.Errorf("PaymentWebhook and RefundWebhook have %v, there are %v", got, domain.Kinds())
	}
	for _, lang := range []string{"en", "ru"} {
		named := accountWords(t, "common", lang)
		for _, k := range domain.KindTypes() {
			if !named("kind." + string(k.Kind)) {
				t.Errorf("%s: the account has no words for %s", lang, k.Kind)
			}
		}
	}
}

// TestEveryEventOfAPaymentIsNamed: the history of a payment and the statement
// name each type of event.
func TestEveryEventOfAPaymentIsNamed(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{"en", "ru"} {
		named := accountWords(t, "payments", lang)
		for _, e := range domain.Events() {
			if _, ok := e.Sample.(domain.PaymentEvent); ok && !named("event."+e.Name) {
				t.Errorf("%s: the account has no words for %s", lang, e.Name)
			}
		}
	}
}

// accountWords reads a file of the account's words. The answer tells whether there
// are any for an id.
func accountWords(t *testing.T, file, lang string) func(id string) bool {
	t.Helper()
	text, err := os.ReadFile("account/locales/" + file + "." + lang + ".toml")
	if err != nil {
		t.Fatal(err)
	}
	var words map[string]any
	meta, err := toml.Decode(string(text), &words)
	if err != nil {
		t.Fatal(err)
	}
	return func(id string) bool {
		return slices.ContainsFunc(meta.Keys(), func(k toml.Key) bool { return k.String() == id })
	}
}
