package stripe_test

import (
	"errors"
	"strings"
	"testing"

	"payledger/notifier/connector"
	"payledger/notifier/connector/stripe"
)

// TestSettings: the field that is wrong, and never a secret.
func TestSettings(t *testing.T) {
	t.Parallel()
	env := secrets{
		"LIVE": "sk_live_51HiddenKey", "TEST": "sk_test_51HiddenKey", "RLIVE": "rk_live_51HiddenKey", "RTEST": "rk_test_51HiddenKey",
		"PUBLIC": "pk_live_51HiddenKey", "TWO": "sk_live_51HiddenKey sk_live_52HiddenKey", "OTHER": "HiddenKey",
		"SECRET": "whsec_HiddenKey", "SECRETS": "whsec_HiddenKey whsec_2", "key.txt": "sk_live_51HiddenKey",
	}.env()
	for settings, field := range map[string]string{
		`{"api_key_env":"LIVE"}`:                                                            "",
		`{"api_key_file":"key.txt","webhook_secret_env":"SECRETS"}`:                         "",
		`{"api_key_env":"RLIVE","webhook_secret_env":"SECRET"}`:                             "",
		`{"api_key_env":"TEST","test":true}`:                                                "",
		`{"api_key_env":"RTEST","test":true,"api_base":"http://127.0.0.1:1"}`:               "",
		`{"api_key_env":"TEST"}`:                                                            "test",
		`{"api_key_env":"RTEST","test":false}`:                                              "test",
		`{"api_key_env":"LIVE","test":true}`:                                                "test",
		`{"api_key_env":"RLIVE","test":true}`:                                               "test",
		`{"api_key_env":"PUBLIC"}`:                                                          "api_key_env",
		`{"api_key_env":"TWO"}`:                                                             "api_key_env",
		`{"api_key_env":"OTHER","test":true}`:                                               "api_key_env",
		`{"api_key_env":"NONE"}`:                                                            "api_key_env",
		`{}`:                                                                                "api_key_env",
		`{"api_key_file":"key.txt","webhook_secret_env":"NONE"}`:                            "webhook_secret_env",
		`{"api_key_env":"LIVE","webhook_secret_env":"OTHER"}`:                               "webhook_secret_env",
		`{"api_key_env":"LIVE","webhook_secret_file":"key.txt"}`:                            "webhook_secret_file",
		`{"api_key_env":"LIVE","api_base":"http://127.0.0.1:1"}`:                            "api_base",
		`{"api_key_env":"TEST","test":true,"api_base":"https://example.com"}`:               "api_base",
		`{"api_key_env":"TEST","test":true,"api_base":"http://localhost:1"}`:                "api_base",
		`{"api_key_env":"TEST","test":true,"api_base":"http://127.0.0.1.example.com"}`:      "api_base",
		`{"api_key_env":"TEST","test":true,"api_base":"http://127.0.0.1:1@example.com/v1"}`: "api_base",
		`{"api_key_env":"LIVE","api_key":"sk_live_51HiddenKey"}`:                            "api_key",
		`{"api_key_env":"LIVE","test":"sk_live_51HiddenKey"}`:                               "test",
		`{"api_key_env":7}`:                                                                 "api_key_env",
	} {
		c, err := stripe.Type().Open(env, "visa", []byte(settings))
		wrong, _ := errors.AsType[*connector.SettingError](err)
		switch {
		case field == "" && (err != nil || c == nil):
			t.Errorf("%s: %v", settings, err)
		case field != "" && (wrong == nil || wrong.Field != field):
			t.Errorf("%s: %v; want one of %q", settings, err, field)
		case err != nil && strings.Contains(err.Error(), "Hidden"):
			t.Errorf("%s: the secret is in %v", settings, err)
		}
	}
}
