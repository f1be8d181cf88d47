package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json/jsontext"
)

func TestAmounts(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for sent, want := range map[string]string{
		`0.01`: "0.01", `"0.01"`: "0.01", `0.1`: "0.10", `"0.1"`: "0.10", `1`: "1.00", `"1"`: "1.00", `1500`: "1500.00", `1500.5`: "1500.50",
		`1500.00`: "1500.00", `"1500.00"`: "1500.00", `999999999.99`: "999999999.99", `"999999999.99"`: "999999999.99", `999999999`: "999999999.00",
		`0.29`: "0.29", `1.15`: "1.15", `8.95`: "8.95", `"\u0031\u0030"`: "10.00", `100`: "100.00", `10.10`: "10.10",
	} {
		a := m.pay(`{"amount":`+sent+`}`).want(201, "")
		if got := a.object().Amount; got != want {
			t.Errorf("%s: %s, want %s", sent, got, want)
		}
		if !strings.Contains(string(a.Body), `"amount":"`+want+`"`) {
			t.Errorf("%s: %s", sent, a.Body)
		}
	}
	for sent, want := range map[string]string{
		`0`: "amount_too_small", `"0"`: "amount_too_small", `0.00`: "amount_too_small", `"0.0"`: "amount_too_small",
		`-0`: "amount_format", `-1`: "amount_format", `"-1"`: "amount_format", `"+1"`: "amount_format", `-0.01`: "amount_format",
		`1e2`: "amount_format", `1E2`: "amount_format", `"1e2"`: "amount_format", `1e-2`: "amount_format", `1.5e1`: "amount_format",
		`"1,50"`: "amount_format", `"1 500"`: "amount_format", `" 1"`: "amount_format", `"1 "`: "amount_format", `"1\n"`: "amount_format",
		`"01"`: "amount_format", `"00.10"`: "amount_format", `".5"`: "amount_format", `"1."`: "amount_format", `""`: "amount_format",
		`"."`: "amount_format", `"1.2.3"`: "amount_format", `"NaN"`: "amount_format", `"Infinity"`: "amount_format", `"0x1"`: "amount_format",
		`"١٥"`: "amount_format", `"１"`: "amount_format", `"1_000"`: "amount_format", `"1.5 RUB"`: "amount_format", `"₽1"`: "amount_format",
		`"\u0000"`: "amount_format", `"null"`: "amount_format",
		`1.000`: "amount_precision", `"1.000"`: "amount_precision", `0.001`: "amount_precision", `"1500.505"`: "amount_precision",
		`12345678901.123`: "amount_precision", `"0.000"`: "amount_precision", `1.0000000000000000000001`: "amount_precision",
		`1000000000`: "amount_too_large", `"1000000000.00"`: "amount_too_large", `9999999999`: "amount_too_large",
		`"99999999999999999999999999999999999999"`: "amount_too_large", `1000000000.1`: "amount_too_large",
		`true`: "wrong_type", `{}`: "wrong_type", `[]`: "wrong_type", `[1]`: "wrong_type", `false`: "wrong_type", `null`: "required",
		`"` + strings.Repeat("9", 16000) + `"`: "amount_too_large", strings.Repeat("9", 16000): "amount_too_large",
	} {
		if got := m.pay(`{"amount":` + sent + `}`).fields(); got != "#/amount "+want {
			t.Errorf("%.60s: %s, want %s", sent, got, want)
		}
	}
	if got := m.pay(`{}`).fields(); got != "#/amount required" {
		t.Error(got)
	}
}

func TestProjectLimits(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant(`{"max_amount":"100.00","currencies":["RUB","USD"]}`)
	m.pay(`{"amount":"100"}`).want(201, "")
	if c := m.pay(`{"amount":1,"currency":"USD"}`).want(201, "").object().Currency; c != "USD" {
		t.Errorf("currency %s", c)
	}
	a := m.pay(`{"amount":"100.01"}`)
	if got := a.fields(); got != "#/amount amount_too_large" {
		t.Error(got)
	}
	if f := a.problem().Errors[0]; f.Maximum != "100.00" {
		t.Errorf("%+v", f)
	}
	// The problem gives the project's maximum also for amounts above every maximum.
	if f := m.pay(`{"amount":"1000000000"}`).problem().Errors[0]; f.Maximum != "100.00" {
		t.Errorf("%+v", f)
	}
	// The name of a member can be empty.
	if got := m.pay(`{"amount":1,"":2}`).fields(); got != "#/ unknown_field" {
		t.Error(got)
	}
	// Faults against any project's rules are reported together with those against
	// this project's.
	got := m.pay(`{"amount":"101","currency":"EUR","description":"\n","nothing":1}`).fields()
	want := "#/amount amount_too_large, #/currency currency_not_supported, #/description control_character, #/nothing unknown_field"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// The project does not take the default currency.
func TestProjectWithoutTheDefaultCurrency(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant(`{"currencies":["USD"]}`)
	m.pay(`{"amount":1,"currency":"USD"}`).want(201, "")
	for sent, want := range map[string]string{
		`{"amount":1}`:                "#/currency currency_not_supported",
		`{"amount":"x"}`:              "#/amount amount_format, #/currency currency_not_supported",
		`{"amount":1,"currency":1}`:   "#/currency wrong_type",
		`{"amount":1,"currency":"?"}`: "#/currency currency_not_supported",
		`[]`:                          "# wrong_type",
	} {
		if got := m.pay(sent).fields(); got != want {
			t.Errorf("%s: %s, want %s", sent, got, want)
		}
	}
}

func TestCurrency(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for _, body := range []string{`{"amount":1}`, `{"amount":1,"currency":null}`, `{"amount":1,"currency":"RUB"}`, `{"amount":1,"currency":"\u0052UB"}`} {
		if c := m.pay(body).want(201, "").object().Currency; c != "RUB" {
			t.Errorf("%s: %s", body, c)
		}
	}
	for _, c := range []string{`"rub"`, `"Rub"`, `"USD"`, `"RUR"`, `"JPY"`, `"XXX"`, `""`, `" RUB"`, `"RUB "`, `"RUBLE"`, `"₽"`, `"643"`} {
		a := m.pay(`{"amount":1,"currency":` + c + `}`)
		if got := a.fields(); got != "#/currency currency_not_supported" {
			t.Errorf("%s: %s", c, got)
		}
		if f := a.problem().Errors[0]; fmt.Sprint(f.Allowed) != "[RUB]" {
			t.Errorf("%s: allowed %v", c, f.Allowed)
		}
	}
	for _, c := range []string{`643`, `true`, `["RUB"]`, `{}`} {
		if got := m.pay(`{"amount":1,"currency":` + c + `}`).fields(); got != "#/currency wrong_type" {
			t.Errorf("%s: %s", c, got)
		}
	}
}

func TestDescription(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for _, sent := range []string{
		`""`, `" "`, `"order-1042"`, `"  kept  "`, `"Чай №1"`, `"e\u0301 and é"`, `"\ud83d\ude00"`, `"😀"`, `"\u2028\u2029"`, `"<b>&\"\\/"`,
		`"\/"`, `"` + strings.Repeat("я", 128) + `"`, `"` + strings.Repeat("😀", 128) + `"`, `"` + strings.Repeat(`\ud83d\ude00`, 128) + `"`,
		`"` + "\u200b\u202e\ufffd" + `"`, `"null"`,
	} {
		a := m.pay(`{"amount":1,"description":`+sent+`}`).want(201, "").object()
		want, _ := wire.Text(jsontext.Value(sent))
		if a.Description == nil || *a.Description != want {
			t.Errorf("%.80s came back as %v", sent, a.Description)
		}
		again := m.get("/v1/payments/"+a.ID).want(200, "").object()
		if again.Description == nil || *again.Description != want {
			t.Errorf("%.80s was read as %v", sent, again.Description)
		}
	}
	for _, body := range []string{`{"amount":1}`, `{"amount":1,"description":null}`} {
		if a := m.pay(body).want(201, ""); !strings.Contains(string(a.Body), `"description":null`) {
			t.Errorf("%s: %s", body, a.Body)
		}
	}
	for sent, want := range map[string]string{
		`"` + strings.Repeat("x", 129) + `"`:       "too_long",
		`"` + strings.Repeat("😀", 129) + `"`:       "too_long",
		`"e` + strings.Repeat(`\u0301`, 128) + `"`: "too_long", // one glyph, 129 code points
		`"a\nb"`: "control_character", `"\t"`: "control_character", `"\u0000"`: "control_character", `"\u007f"`: "control_character",
		`"\u0080"`: "control_character", `"\u009f"`: "control_character", `"` + "\u0085" + `"`: "control_character", `"` + "\x7f" + `"`: "control_character",
		`1`: "wrong_type", `true`: "wrong_type", `[]`: "wrong_type", `{"a":"b"}`: "wrong_type",
	} {
		if got := m.pay(`{"amount":1,"description":` + sent + `}`).fields(); got != "#/description "+want {
			t.Errorf("%.60s: %s, want %s", sent, got, want)
		}
	}
	f := m.pay(`{"amount":1,"description":"` + strings.Repeat("я", 130) + `"}`).problem().Errors[0]
	if f.LimitCharacter != 128 || f.GotCharacters != 130 {
		t.Errorf("%+v", f)
	}
}

func TestPayloadComesBackByteForByte(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for sent, want := range map[string]string{
		`{}`:      `{}`,
		` { } `:   `{}`,
		`null`:    `{}`,
		`{"a":1}`: `{"a":1}`,
		"{ \"a\" :\t[ 1 ,\r\n 2 ] , \"b\" : { \"c\" : null } }": `{"a":[1,2],"b":{"c":null}}`,
		`{"b":1,"a":2}`:                                 `{"b":1,"a":2}`,
		`{"n":12345678901234567890}`:                    `{"n":12345678901234567890}`,
		`{"n":1.10,"m":1e5,"o":-0,"p":1E+2,"q":0.0}`:    `{"n":1.10,"m":1e5,"o":-0,"p":1E+2,"q":0.0}`,
		`{"n":0.1000000000000000055511151231257827}`:    `{"n":0.1000000000000000055511151231257827}`,
		`{"s":"<script>&</script>"}`:                    `{"s":"<script>&</script>"}`,
		`{"s":"\u003cb\u003e"}`:                         `{"s":"\u003cb\u003e"}`,
		`{"s":"\/"}`:                                    `{"s":"\/"}`,
		`{"s":"\u00E9 é"}`:                              `{"s":"\u00E9 é"}`,
		`{"s":"\ud83d\ude00😀"}`:                         `{"s":"\ud83d\ude00😀"}`,
		`{"s":"\u2028` + "\u2028" + `"}`:                `{"s":"\u2028` + "\u2028" + `"}`,
		`{"s":"\u0000\t\n"}`:                            `{"s":"\u0000\t\n"}`,
		`{"s":"  blanks  "}`:                            `{"s":"  blanks  "}`,
		`{"\u0061":1}`:                                  `{"\u0061":1}`,
		`{"":""}`:                                       `{"":""}`,
		`{"id":"x","amount":-1,"payload":{"a":true}}`:   `{"id":"x","amount":-1,"payload":{"a":true}}`,
		`{"instructions":{"type":"link","url":"evil"}}`: `{"instructions":{"type":"link","url":"evil"}}`,
	} {
		a := m.pay(`{"amount":1,"payload":`+sent+`}`).want(201, "")
		if got := string(a.object().Payload); got != want {
			t.Errorf("created: %s became %s, want %s", sent, got, want)
		}
		id := a.object().ID
		if got := string(m.get("/v1/payments/"+id).want(200, "").object().Payload); got != want {
			t.Errorf("read: %s became %s, want %s", sent, got, want)
		}
		if events := m.get("/v1/payments/"+id+"/events").want(200, ""); !strings.Contains(string(events.Body), `"payload":`+want) {
			t.Errorf("events: %s became %s", sent, events.Body)
		}
	}
}

func TestPayloadSize(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	sized := func(n int, fill string) string {
		return `{"a":"` + strings.Repeat(fill, (n-8)/len(fill)) + strings.Repeat("x", (n-8)%len(fill)) + `"}`
	}
	for _, fill := range []string{"x", "я", "😀", `\n`, `\u00e9`} {
		if p := sized(512, fill); len(p) != 512 {
			t.Fatalf("%d bytes", len(p))
		}
		m.pay(`{"amount":1,"payload":`+sized(512, fill)+`}`).want(201, "")
		a := m.pay(`{"amount":1,"payload":` + sized(513, fill) + `}`)
		if got := a.fields(); got != "#/payload payload_too_large" {
			t.Errorf("%q: %s", fill, got)
		}
		if f := a.problem().Errors[0]; f.LimitBytes != 512 || f.GotBytes != 513 {
			t.Errorf("%+v", f)
		}
	}
	m.pay(`{"amount":1,"payload":`+strings.Repeat(" ", 15000)+sized(512, "x")+`}`).want(201, "")
	for _, sent := range []string{`"{}"`, `[]`, `[{}]`, `1`, `true`, `""`} {
		if got := m.pay(`{"amount":1,"payload":` + sent + `}`).fields(); got != "#/payload wrong_type" {
			t.Errorf("%s: %s", sent, got)
		}
	}
}

func TestUnknownFields(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	for sent, want := range map[string]string{
		`{"amount":1,"Amount":1}`:                                "#/Amount unknown_field",
		`{"amount":1,"id":"x"}`:                                  "#/id unknown_field",
		`{"amount":1,"status":"paid"}`:                           "#/status unknown_field",
		`{"amount":1,"a/b~c":1}`:                                 "#/a~1b~0c unknown_field",
		`{"amount":1,"a b%":null}`:                               "#/a%20b%25 unknown_field",
		`{"amount":1,"":1}`:                                      "#/ unknown_field",
		`{"amount":1,"` + strings.Repeat("s", 65) + `":1}`:       "# unknown_field",
		`{"amount":1,"<script>":1}`:                              "#/%3Cscript%3E unknown_field",
		`{"Amount":1}`:                                           "#/amount required, #/Amount unknown_field",
		`{"unknown":1,"payload":1,"amount":"x","description":1}`: "#/amount amount_format, #/description wrong_type, #/payload wrong_type, #/unknown unknown_field",
		`{"payment_id":"x"}`:                                     "#/amount required, #/payment_id unknown_field",
	} {
		if got := m.pay(sent).fields(); got != want {
			t.Errorf("%s: %s, want %s", sent, got, want)
		}
	}
	var many strings.Builder
	for i := range 500 {
		fmt.Fprintf(&many, `,"x%d":1`, i)
	}
	if n := len(m.pay(`{"amount":1` + many.String() + `}`).problem().Errors); n != edge.MaxUnknown {
		t.Errorf("%d errors", n)
	}
}

func TestPaymentObject(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	a := m.pay(`{"amount":"1500.00","description":"order-1042","payload":{"cart":7}}`).want(201, "")
	c := a.object()
	url := s.cfg.Links.URL(publicURL, 1, mustID(t, c.ID))
	rest := `"amount":"1500.00","currency":"RUB","description":"order-1042","payload":{"cart":7},`
	end := `"created_at":"2026-11-20T10:15:30.123Z"}`
	if want := `{"id":"` + c.ID + `","status":"created",` + rest + `"instructions":{"type":"link","url":"` + url + `"},` + end; string(a.Body) != want {
		t.Errorf("%s\nwant %s", a.Body, want)
	}
	if got := a.Header.Get("Location"); got != "/v1/payments/"+c.ID {
		t.Errorf("Location %s", got)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for status, step := range map[string]func(){"created": func() {}} {
		step()
		if got, want := string(m.get("/v1/payments/"+c.ID).want(200, "").Body), `{"id":"`+c.ID+`","status":"`+status+`",`+rest+end; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	m.route(c.ID)
	if got := m.get("/v1/payments/" + c.ID).object().Status; got != "awaiting_payment" {
		t.Error(got)
	}
	if link := s.send("GET", strings.TrimPrefix(url, publicURL), nil); link.Code != 200 || link.Header.Get("X-Request-Id") == "" {
		t.Errorf("the link answers %d", link.Code)
	}
}

func mustID(t testing.TB, s string) domain.ID {
	t.Helper()
	id, ok := domain.ParseID(s)
	if !ok {
		t.Fatalf("%q is no id", s)
	}
	return id
}

// No error and no log record repeats what a merchant sent or a secret.
func TestErrorsAndLogsRepeatNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	const secret = "S3CR3T"
	for _, body := range []string{
		`{"amount":"` + secret + `"}`, `{"amount":1,"currency":"` + secret + `"}`, `{"amount":1,"description":"` + secret + `\n"}`,
		`{"amount":1,"payload":["` + secret + `"]}`, `{"amount":1,"description":"` + secret + `","description":""}`, `{"amount":1} ` + secret,
		`{"amount":1,"x` + strings.Repeat("x", 64) + secret + `":1}`,
	} {
		if a := m.pay(body, header{"X-Secret", secret}); a.Code < 400 || strings.Contains(string(a.Body), secret) {
			t.Errorf("%s: %s", body, a.Body)
		}
	}
	for _, target := range []string{"/v1/payments/" + secret, "/v1/" + secret, "/" + secret, "/v1/payments?status=" + secret, "/v1/payments?cursor=" + secret, "/p/" + secret, "/problems/" + secret} {
		if a := m.get(target); strings.Contains(string(a.Body), secret) {
			t.Errorf("%s: %s", target, a.Body)
		}
	}
	s.send("GET", "/v1/payments", nil, header{"Authorization", "Bearer " + m.project + ":" + secret}).want(401, domain.Unauthorized)
	m.pay(`{"amount":1,"description":"`+secret+`"}`, key(1)).want(201, "")
	logged := s.log.String()
	for _, word := range []string{secret, m.secret, "0190f5a1", "/p/"} {
		if strings.Contains(logged, word) {
			t.Errorf("the log has %q", word)
		}
	}
	if !strings.Contains(logged, `"operation":"createPayment","status":201`) || !strings.Contains(logged, m.project) {
		t.Errorf("log: %.400s", logged)
	}
}
