package wire

import (
	"errors"
	"io"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Fault{
		"":                         {At: 0, Err: io.EOF},
		`{"a":[1,{"b":1,"b":2}]}`:  {At: 15, Pointer: "/a/1/b", Err: jsontext.ErrDuplicateName},
		`{"a":1,"\u0061":2}`:       {At: 7, Pointer: "/a", Err: jsontext.ErrDuplicateName},
		`{"a":"\ud83d"}`:           {At: 6, Pointer: "/a", Surrogate: true},
		`{"\ud83d":1,"a":1,"a":2}`: {At: 2, Surrogate: true},
		"{\"a\":\"\xff\"}":         {At: 6, Pointer: "/a", Surrogate: true},
		`{"a":01}`:                 {At: 6, Pointer: ""},
		`[1,[2`:                    {At: 5, Pointer: "/1", Err: io.ErrUnexpectedEOF},
		"[] \n {}":                 {At: 5, Err: ErrMore},
		`{"a":1}]`:                 {At: 7, Err: ErrMore},
		"\ufeff{}":                 {At: 0},
	} {
		_, err := Members([]byte(text))
		f, ok := errors.AsType[*Fault](err)
		if !ok || f.At != want.At || f.Pointer != want.Pointer || f.Surrogate != want.Surrogate || (want.Err != nil && !errors.Is(f, want.Err)) {
			t.Errorf("%q: %+v, want %+v", text, err, want)
		}
	}
}

func TestMembersAreWhereTheyStand(t *testing.T) {
	t.Parallel()
	const text = " {\"a\" : [1, \"x\"],\n\"\\u0062\":null} "
	all, err := Members([]byte(text))
	if err != nil || len(all) != 2 || all[0].Name != "a" || all[1].Name != "b" {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, m := range all {
		if text[m.At:m.At+len(m.Value)] != string(m.Value) {
			t.Errorf("%s is not at %d", m.Value, m.At)
		}
	}
	if line, before := Location([]byte(text), all[1].At); line != 2 || string(before) != `"\u0062":` {
		t.Errorf("line %d behind %q", line, before)
	}
	elements, err := Members(all[0].Value)
	if err != nil || len(elements) != 2 || elements[1].At != 4 || elements[1].Name != "" {
		t.Errorf("%+v, %v", elements, err)
	}
	for _, other := range []string{"7", `"{}"`, "null", "{}", "[]"} {
		if all, err := Members([]byte(other)); err != nil || len(all) != 0 {
			t.Errorf("%s: %+v, %v", other, all, err)
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	if all, ok := Texts(jsontext.Value(` ["a","\u0062"]`)); !ok || len(all) != 2 || all[1] != "b" {
		t.Errorf("%q, %t", all, ok)
	}
	for _, other := range []string{`["a",null]`, `["a",["b"]]`, `"a"`, `{"a":"b"}`, "null"} {
		if all, ok := Texts(jsontext.Value(other)); ok {
			t.Errorf("%s is %q", other, all)
		}
	}
}
