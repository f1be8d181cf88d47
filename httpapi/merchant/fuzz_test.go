package merchant

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"payledger/domain"

	"github.com/go-json-experiment/json/jsontext"
)

// The amount's grammar as regular expressions, in the order in which the code
// is chosen.
func amountModel(token string) domain.Code {
	for _, c := range []struct {
		pattern string
		code    domain.Code
	}{
		{`^(0|[1-9][0-9]*)\.[0-9]{3,}$`, domain.AmountPrecision},
		{`^[1-9][0-9]{9,}(\.[0-9]{1,2})?$`, domain.AmountTooLarge},
		{`^0(\.0{1,2})?$`, domain.AmountTooSmall},
		{`^(0|[1-9][0-9]{0,8})(\.[0-9]{1,2})?$`, ""},
	} {
		if regexp.MustCompile(c.pattern).MatchString(token) {
			return c.code
		}
	}
	return domain.AmountFormat
}

func FuzzAmount(f *testing.F) {
	for _, s := range []string{"1500.00", "0", "0.01", "999999999.99", "1000000000", "1.000", "1e2", "-1", "+1", "01", ".5", "1.", " 1", "1\n", "NaN", "٣", "0.000", "9999999999.999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		quoted, err := jsontext.AppendQuote(nil, token)
		if err != nil {
			t.Skip("not UTF-8")
		}
		amount, field := AmountOf(quoted)
		want := amountModel(token)
		got := domain.Code("")
		if field != nil {
			got = field.Code
		}
		if got != want {
			t.Fatalf("%q: %q, want %q", token, got, want)
		}
		if want != "" {
			return
		}
		integer, fraction, _ := strings.Cut(token, ".")
		if s := integer + "." + (fraction + "00")[:2]; amount.String() != s {
			t.Fatalf("%q became %s", token, amount)
		}
		// A number is read by the same grammar.
		if number, field := AmountOf(jsontext.Value(token)); field != nil || number != amount {
			t.Fatalf("number %s: %v, %v", token, number, field)
		}
	})
}

func FuzzID(f *testing.F) {
	for _, s := range []string{"01M7W78FJBM8T4R7B5N0C1D2E3", "01m7w78fjbm8t4r7b5n0c1d2e3", "81M7W78FJBM8T4R7B5N0C1D2E3", "01M7W78FJBM8T4R7B5N0C1D2EU", ""} {
		f.Add(s)
	}
	model := regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`)
	f.Fuzz(func(t *testing.T, s string) {
		id, ok := domain.ParseID(s)
		if ok != model.MatchString(s) || (ok && id.String() != s) {
			t.Fatalf("%q: %v %s", s, ok, id)
		}
	})
}

func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{someKey, strings.ToUpper(someKey), `"` + someKey + `"`, `"` + someKey, "urn:uuid:" + someKey, "", someKey[1:]} {
		f.Add(s)
	}
	model := regexp.MustCompile(`^([0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}|"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")$`)
	f.Fuzz(func(t *testing.T, s string) {
		key, err := idempotencyKey(http.Header{"Idempotency-Key": {s}})
		if (err == nil) != model.MatchString(s) {
			t.Fatalf("%q: %v", s, err)
		}
		if err != nil {
			return
		}
		folded, err := idempotencyKey(http.Header{"Idempotency-Key": {strings.ToUpper(strings.Trim(s, `"`))}})
		if err != nil || *folded != *key {
			t.Fatalf("%q: case or quotes make another key", s)
		}
	})
}

const someKey = "0190f5a1-7c1e-4b6e-9d3a-5f0c2b7e8a11"
