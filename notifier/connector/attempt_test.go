package connector_test

import (
	"strings"
	"testing"

	"payledger/domain"
	"payledger/notifier/connector"
)

func TestHandOffsLeadToPublicPlaces(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"https://checkout.stripe.com/c/pay/cs_test_a1#fid":            true,
		"https://qr.nspk.ru/AS1000670LSS7DN18SJQDNP4B05KLJL2?type=01": true,
		"https://93.184.215.14/pay":                                   true,
		"https://pay.example.com:8443/a":                              true,
		"https://xn--80ak6aa92e.xn--p1ai/":                            true,
		"http://checkout.stripe.com/c/pay":                            false,
		"javascript:alert(1)":                                         false,
		"//checkout.stripe.com":                                       false,
		"https:pay.example.com":                                       false,
		"https://user:secret@pay.example.com/":                        false,
		"https://localhost/":                                          false,
		"https://localhost./":                                         false,
		"https://a.localhost/":                                        false,
		"https://printer.local/":                                      false,
		"https://127.0.0.1/":                                          false,
		"https://127.1/":                                              false,
		"https://127.0.0.0x1/":                                        false, // browsers read all of these as 127.0.0.1
		"https://0x7f.0X0.0.0x1/":                                     false,
		"https://127.0.0.0x/":                                         false,
		"https://127.0.0.1./":                                         false,
		"https://0177.0.0.01/":                                        false,
		"https://１２７.０.０.１/":                                          false,
		"https://127。0。0。1/":                                          false,
		"https://a.ｌocalhost/":                                        false,
		"https://a.b0x1/":                                             true,
		"https://[::1]/":                                              false,
		"https://[::ffff:10.0.0.1]/":                                  false,
		"https://[fe80::1]/":                                          false,
		"https://10.1.2.3/":                                           false,
		"https://169.254.169.254/latest":                              false,
		"https://0.0.0.0/":                                            false,
		"https://intranet/":                                           false,
		"https:///path":                                               false,
		"https://pay.example.com/\x00":                                false,
		"https://pay.example.com/\xff":                                false,
		"":                                                            false,
		"https://pay.example.com/" + strings.Repeat("a", connector.MaxRedirect): false,
	} {
		h := domain.HandOff{Kind: domain.HandOffRedirect, URL: url}
		if err := connector.ValidHandOff(h); (err == nil) != ok {
			t.Errorf("%.60q: %v", url, err)
		}
	}
	long := "https://qr.nspk.ru/" + strings.Repeat("A", connector.MaxQR)
	if err := connector.ValidHandOff(domain.HandOff{Kind: domain.HandOffQR, URL: long}); err == nil {
		t.Error("a QR code that nobody can scan")
	}
	if err := connector.ValidHandOff(domain.HandOff{Kind: "form", URL: "https://pay.example.com/"}); err == nil {
		t.Error("an unknown kind")
	}
}

func TestReasonCode(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"card_declined": "card_declined", "Insufficient funds!": "insufficient_funds", "": "unknown", "нет денег": "unknown",
		"a\x00b": "a_b", strings.Repeat("x", 100): strings.Repeat("x", domain.MaxReason), "__a__": "a",
	} {
		if got := connector.ReasonCode(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
