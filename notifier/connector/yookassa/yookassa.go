// Package yookassa collects money through a shop at YooKassa (API v3).
//
// An attempt is a payment object there. The customer is redirected to YooKassa's
// page, or, with the settings "method": "sbp" and "qr": true, scans a QR code of
// Russia's Faster Payments System (SBP) on our own page.
//
// Rules of YooKassa that this package relies on:
//
//   - A request is signed with HTTP Basic (shop id, secret key) and carries an
//     Idempotence-Key of at most 64 characters, kept for 24 hours. The same key
//     with another body is an error. Ours are the attempt's key, that key with
//     "-capture" or "-cancel", and the refund's id.
//     https://yookassa.ru/developers/using-api/interaction-format
//   - 200 answers the object. 400 and 404 are refusals: nothing was done. 401 and
//     403 concern the key and the shop's rights: the operator mends them and the
//     call is repeated. After 500 the result is not known: the request is repeated
//     with the same key. 202 says that the request is still being processed, and
//     429 that there are too many of them.
//     https://yookassa.ru/developers/using-api/response-handling/recommendations
//   - A payment is pending, waiting_for_capture (the money is held), succeeded or
//     canceled, with cancellation_details.reason. Only waiting_for_capture can be
//     cancelled, so payments are made with "capture": false: Read captures the
//     money that is held, Cancel lets go of it. A hold that is not captured ends
//     by itself, a card's after 7 days.
//     https://yookassa.ru/developers/payment-acceptance/getting-started/payment-process
//   - A pending payment cannot be cancelled. YooKassa cancels it when the customer
//     has not paid within the time of the method, an hour for most. Until then
//     Cancel answers Open.
//   - SBP cannot hold money: it is paid at once. A customer who pays a QR code
//     after the payment has closed brings late funds. The same goes for other
//     methods without holds, where the customer chooses at YooKassa.
//     https://yookassa.ru/developers/payment-acceptance/integration-scenarios/manual-integration/other/sbp
//   - Objects made by a test shop have "test": true. They count only where the
//     settings say "test": true.
//     https://yookassa.ru/developers/using-api/testing
//   - A refund is pending, succeeded or canceled. Refunds are found again by
//     payment_id; ours carry their id in metadata, and in the description too,
//     because older descriptions of the API know no metadata of refunds.
//     https://yookassa.ru/developers/payment-acceptance/after-the-payment/refunds
//   - Notifications are not signed. They name a payment, and that is all that is
//     believed: it is read from the API afterwards.
//     https://yookassa.ru/developers/using-api/webhooks
//
// YooKassa repeats for a key "the result of the first request", and does not say
// whether that is the object as it is now. So objects are read again before their
// state is answered.
//
// A merchant's payload.receipt is passed on as it is, as the "receipt" of the
// payment and of its refund: data for the fiscal receipt of Russia's law 54-FZ,
// which holds the customer's e-mail address or phone number.
package yookassa

import (
	"strings"

	"payledger/notifier/connector"
)

// apiBase is where requests go to.
const apiBase = "https://api.yookassa.ru/v3"

// The methods that the settings can name. Empty: the customer chooses at YooKassa
// from all that the shop has.
const (
	bankCard   = "bank_card"
	sberPay    = "sberbank"
	yooMoney   = "yoo_money"
	tPay       = "tinkoff_bank"
	sbp        = "sbp"
	maxShopID  = 32
	testPrefix = "test_" // of the secret keys of test shops
	livePrefix = "live_" // of all others
)

// settings are the members of a connector's object in the routes file.
type settings struct {
	ShopID        string `json:"shop_id"`
	SecretKeyFile string `json:"secret_key_file"`
	SecretKeyEnv  string `json:"secret_key_env"`
	Method        string `json:"method"`   // bank_card, sberbank, yoo_money, tinkoff_bank, sbp; empty: the customer chooses
	QR            bool   `json:"qr"`       // show the QR code of SBP on our own page
	Test          bool   `json:"test"`     // the shop is a test shop
	APIBase       string `json:"api_base"` // for tests: an address on loopback
}

// Type is the row of routesfile.Types.
func Type() connector.Type {
	return connector.Type{
		Name: "yookassa", Title: "YooKassa",
		Open:   open,
		Sample: `{"shop_id":"123456","secret_key_env":"YOOKASSA_SECRET_KEY"}`,
	}
}

// shop is the connector of one shop.
type shop struct {
	api    client
	method string
	qr     bool
	test   bool
}

func open(e connector.Env, _ string, object []byte) (connector.Connector, error) {
	s := settings{APIBase: apiBase}
	if err := connector.DecodeSettings(object, &s); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	key, err := e.Secret("secret_key", s.SecretKeyFile, s.SecretKeyEnv)
	if err != nil {
		return nil, err
	}
	if err := s.checkKey(key); err != nil {
		return nil, err
	}
	return &shop{
		api:    client{http: e.HTTP, base: s.APIBase, shopID: s.ShopID, key: key},
		method: s.Method, qr: s.QR, test: s.Test,
	}, nil
}

func (s settings) check() error {
	if s.ShopID == "" || len(s.ShopID) > maxShopID || strings.Trim(s.ShopID, "0123456789") != "" {
		return &connector.SettingError{Field: "shop_id", Detail: `want the shop's id, digits in a string as "123456"`}
	}
	switch s.Method {
	case "", bankCard, sberPay, yooMoney, tPay, sbp:
	default:
		return &connector.SettingError{Field: "method", Detail: "want bank_card, sberbank, yoo_money, tinkoff_bank, sbp or an empty string"}
	}
	if s.QR && s.Method != sbp {
		return &connector.SettingError{Field: "qr", Detail: `only "method": "sbp" has QR codes`}
	}
	if s.APIBase != apiBase && !connector.OnLoopback(s.APIBase) {
		return &connector.SettingError{Field: "api_base", Detail: "leave it out; tests name a loopback address as http://127.0.0.1:8090/v3"}
	}
	return nil
}

// checkKey distinguishes keys of test shops from others, as far as they show it.
func (s settings) checkKey(key string) error {
	switch {
	case strings.HasPrefix(key, testPrefix) && !s.Test:
		return &connector.SettingError{Field: "test", Detail: `the secret key is a test shop's; want "test": true`}
	case strings.HasPrefix(key, livePrefix) && s.Test:
		return &connector.SettingError{Field: "test", Detail: `the secret key is no test shop's; leave "test" out`}
	}
	return nil
}
