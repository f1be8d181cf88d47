package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
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
		amount, field := amountOf(member{name: "amount", value: quoted})
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
		if number, field := amountOf(member{name: "amount", value: rawValue(token)}); field != nil || number != amount {
			t.Fatalf("number %s: %v, %v", token, number, field)
		}
	})
}

// What decodeObject takes, encoding/json takes with the same members; what it
// refuses, encoding/json refuses, or it is one of those it is known to let
// pass.
func FuzzBody(f *testing.F) {
	for _, s := range []string{
		`{"amount":"1","payload":{"a":[1,{"b":null}]}}`, `{"a":1,"a":2}`, `{"a":"\ud800"}`, `{"a":1}x`, "", " ", "\ufeff{}", "[]", `{"a":"\u0000"}`,
		`{"\u0061":1,"a":1}`, `{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, "{\xff}", `{"a":1e999}`, `{"a":"\ud83d\ude00"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sent := bytes.Clone(body)
		members, err := decodeObject(body)
		if !bytes.Equal(sent, body) {
			t.Fatal("the body was changed")
		}
		var p problem
		switch {
		case errors.As(err, &p):
			lenient := p.Code == domain.DuplicateMember || p.Code == domain.InvalidEncoding || strings.Contains(p.Detail, "nested")
			if json.Valid(body) && !lenient {
				t.Fatalf("%q was refused: %v", body, p)
			}
			if p.Code == domain.InvalidEncoding && utf8.Valid(body) && !bytes.Contains(body, []byte(`\u`)) && !bytes.HasPrefix(body, []byte("\ufeff")) {
				t.Fatalf("%q was refused: %v", body, p)
			}
			return
		case err != nil:
			if trimmed := bytes.TrimSpace(body); !json.Valid(body) || trimmed[0] == '{' {
				t.Fatalf("%q is no object", body)
			}
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(body, &want); err != nil || len(want) != len(members) {
			t.Fatalf("%q: %v: %d members, want %d", body, err, len(members), len(want))
		}
		for _, m := range members {
			if !bytes.Equal(m.value, want[m.name]) {
				t.Fatalf("%q: %q is %s, want %s", body, m.name, m.value, want[m.name])
			}
			packed := bytes.Buffer{}
			if err := json.Compact(&packed, m.value); err != nil || !bytes.Equal(packed.Bytes(), compact(m.value)) {
				t.Fatalf("%s compacted to %s, want %s (%v)", m.value, compact(m.value), &packed, err)
			}
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
		key, err := idempotencyKey(http.Header{"Idempotency-Key": {s}}, false)
		if (err == nil) != model.MatchString(s) {
			t.Fatalf("%q: %v", s, err)
		}
		if err != nil {
			return
		}
		folded, err := idempotencyKey(http.Header{"Idempotency-Key": {strings.ToUpper(strings.Trim(s, `"`))}}, true)
		if err != nil || *folded != *key {
			t.Fatalf("%q: case or quotes make another key", s)
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add("", "prj_x")
	f.Add(cursor{operation: "listPayments", place: "01M7W78FJBM8T4R7B5N0C1D2E3", filters: query{"description": "a\nb&c"}}.encode("prj_x"), "prj_x")
	f.Fuzz(func(t *testing.T, text, project string) {
		c, err := decodeCursor(text, project, "listPayments")
		if err != nil {
			return
		}
		again, err := decodeCursor(c.encode(project), project, "listPayments")
		if err != nil || again.place != c.place || len(again.filters) != len(c.filters) {
			t.Fatalf("%q: %+v became %+v (%v)", text, c, again, err)
		}
		if _, err := decodeCursor(text, project+"x", "listPayments"); err == nil {
			t.Fatalf("%q fits two projects", text)
		}
	})
}
