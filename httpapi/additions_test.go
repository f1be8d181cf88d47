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

// notInAccount are the codes that no page of the account can get, because the
// account makes its requests itself.
var notInAccount = []domain.Code{
	domain.InvalidParameter, domain.MalformedJSON, domain.InvalidEncoding, domain.DuplicateMember, domain.BodyRequired,
	domain.IdempotencyKeyInvalid, domain.IdempotencyKeyRequired, domain.ProjectNotFound, domain.ParkedSignalNotFound,
	domain.VersionNotSupported, domain.MethodNotAllowed, domain.BodyTooLarge,
	domain.UnsupportedMediaType, domain.ValidationFailed,
	domain.NotificationMalformed, domain.NotificationForged, domain.RouteNotFound,
	domain.NATSConsumerNotFound, domain.NATSConsumerExists, domain.NATSConsumerLimit, domain.NATSExternal,
	domain.LateFundsNotFound, domain.DisputeNotFound, domain.RefundedAtProvider, domain.NoConnector,
	domain.SettlementNotFound, domain.SettlementLineNotFound, domain.SettlementOpen, domain.SettlementDiffers,
	domain.PayoutDiffers, domain.PayoutNotFound,

	domain.WrongType, domain.UnknownField, domain.InvalidValue, domain.RefundAmountNotAccepted,
}

// TestEveryCodeIsNamed: the account has its own words for each error.
func TestEveryCodeIsNamed(t *testing.T) {
	t.Parallel()
	requests, fields := declared(t)
	for _, lang := range []string{"en", "ru"} {
		named := accountWords(t, "shell", lang)
		for prefix, codes := range map[string][]domain.Code{"problem.": requests, "wrong.": fields} {
			for _, code := range codes {
				if named(prefix+string(code)) == slices.Contains(notInAccount, code) {
					t.Errorf("%s: whether the account has words for %s differs from notInAccount", lang, code)
				}
			}
		}
	}
}

// accountWords reads a file of the account's texts. The result reports whether it
// has an id.
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
