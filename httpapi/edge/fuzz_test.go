package edge

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"payledger/domain"
	"payledger/httpapi/wire"
)

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
		members, err := DecodeObject(body)
		if !bytes.Equal(sent, body) {
			t.Fatal("the body was changed")
		}
		var p wire.Problem
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
			if !bytes.Equal(m.Value, want[m.Name]) {
				t.Fatalf("%q: %q is %s, want %s", body, m.Name, m.Value, want[m.Name])
			}
			packed := bytes.Buffer{}
			if err := json.Compact(&packed, m.Value); err != nil || !bytes.Equal(packed.Bytes(), wire.Compact(m.Value)) {
				t.Fatalf("%s compacted to %s, want %s (%v)", m.Value, wire.Compact(m.Value), &packed, err)
			}
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add("", "prj_x")
	f.Add(Cursor{Operation: "listPayments", After: "01M7W78FJBM8T4R7B5N0C1D2E3", Filters: Query{"description": "a\nb&c"}}.Encode("prj_x"), "prj_x")
	f.Fuzz(func(t *testing.T, text, project string) {
		c, err := decodeCursor(text, project, "listPayments")
		if err != nil {
			return
		}
		again, err := decodeCursor(c.Encode(project), project, "listPayments")
		if err != nil || again.After != c.After || len(again.Filters) != len(c.Filters) {
			t.Fatalf("%q: %+v became %+v (%v)", text, c, again, err)
		}
		if _, err := decodeCursor(text, project+"x", "listPayments"); err == nil {
			t.Fatalf("%q fits two projects", text)
		}
	})
}
