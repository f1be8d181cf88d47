// Package stripe collects cards' money through Stripe: an attempt is a Checkout
// Session, on whose page the customer pays, and a refund is a Refund of its
// PaymentIntent. stripe-go makes the calls, of the API version that it is made
// for, and verifies notifications.
//
// What it relies on, by Stripe's documentation:
//
//   - A session is paid when payment_status says so; its status alone does not.
//     https://docs.stripe.com/checkout/fulfillment
//   - A session lives from 30 minutes to 24 hours, and only an open one can be
//     expired. https://docs.stripe.com/api/checkout/sessions/create and expire
//   - Stripe keeps the answer to an idempotency key, server errors too, for at
//     least 24 hours; it marks a repeated one with Idempotent-Replayed, and
//     refuses the key with other parameters.
//     https://docs.stripe.com/api/idempotent_requests
//   - A charge is refunded up to its amount, never beyond.
//     https://docs.stripe.com/refunds
//   - The metadata of a PaymentIntent is copied to its charge, so a notification
//     about a refund made by hand names the payment.
//     https://docs.stripe.com/metadata
//   - Notifications are signed over their raw body, with every secret in force.
//     https://docs.stripe.com/webhooks/signature
//
// A declined card leaves the session open for another one. Stripe learns the
// payment's id, the attempt's key and the project's id as metadata, and the
// merchant's name as that of the one item; it learns the customer's data from the
// customer. Stripe itself knows the least and the greatest amount of a currency.
//
// Tests run against the provider in package stripetest; stripe-mock judges the
// form of each request. Stripe itself was never called.
package stripe

import (
	"strings"

	api "github.com/stripe/stripe-go/v85"

	"payledger/notifier/connector"
)

// settings are the members of a connector's object in the routes file.
type settings struct {
	APIKeyFile        string `json:"api_key_file"`
	APIKeyEnv         string `json:"api_key_env"`
	WebhookSecretFile string `json:"webhook_secret_file"` // several secrets are separated by a space
	WebhookSecretEnv  string `json:"webhook_secret_env"`  // without any, outcomes come only from polling
	Test              bool   `json:"test"`                // the key is one of test mode: no real money
	APIBase           string `json:"api_base"`            // for tests: an address on loopback
}

// Type is the row of routesfile.Types.
func Type() connector.Type {
	return connector.Type{
		Name: "stripe", Title: "Stripe",
		Open:   open,
		Sample: `{"api_key_env":"STRIPE_API_KEY","webhook_secret_env":"STRIPE_WEBHOOK_SECRET"}`,
	}
}

// account is the connector of one account at Stripe.
type account struct {
	client  *api.Client
	secrets []string // that notifications are signed with
}

func open(e connector.Env, _ string, object []byte) (connector.Connector, error) {
	var s settings
	if err := connector.DecodeSettings(object, &s); err != nil {
		return nil, err
	}
	key, err := e.Secret("api_key", s.APIKeyFile, s.APIKeyEnv)
	if err != nil {
		return nil, err
	}
	if err := s.check(key); err != nil {
		return nil, err
	}
	a := &account{client: newClient(e.HTTP, key, s.APIBase)}
	if s.WebhookSecretFile+s.WebhookSecretEnv == "" {
		return a, nil
	}
	secret, err := e.Secret("webhook_secret", s.WebhookSecretFile, s.WebhookSecretEnv)
	if err != nil {
		return nil, err
	}
	a.secrets = strings.Fields(secret)
	for _, secret := range a.secrets {
		if !strings.HasPrefix(secret, "whsec_") {
			return nil, &connector.SettingError{Field: member("webhook_secret", s.WebhookSecretFile), Detail: "a signing secret of Stripe's begins with whsec_"}
		}
	}
	return a, nil
}

// check distinguishes keys of test mode from others, so that neither is used for the other by
// mistake.
func (s settings) check(key string) error {
	kind, mode, _ := strings.Cut(key, "_")
	mode, _, _ = strings.Cut(mode, "_")
	switch {
	case kind != "sk" && kind != "rk" || mode != "test" && mode != "live" || strings.ContainsAny(key, " \t\r\n"):
		return &connector.SettingError{Field: member("api_key", s.APIKeyFile), Detail: "want one secret or restricted key of Stripe's, as sk_live_… or rk_live_…"}
	case mode == "test" && !s.Test:
		return &connector.SettingError{Field: "test", Detail: `the API key is of Stripe's test mode, which moves no money: set "test": true, or use a live key`}
	case mode == "live" && s.Test:
		return &connector.SettingError{Field: "test", Detail: `the API key is a live one, which moves real money: leave "test" out, or use a test key`}
	case s.APIBase != "" && (!s.Test || !connector.OnLoopback(s.APIBase)):
		return &connector.SettingError{Field: "api_base", Detail: `leave it out; tests name a loopback address as http://127.0.0.1:12111, with "test": true`}
	}
	return nil
}

// member is which of two settings a secret was read from.
func member(name, file string) string {
	if file != "" {
		return name + "_file"
	}
	return name + "_env"
}
