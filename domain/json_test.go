package domain_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

func TestJSONKeepsItsBytes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, `{"b":1,"a":2}`, `{"n":12345678901234567890}`, `{"n":1.50e+3}`, `{"s":"<&>\u003c"}`, `{"s":"\u00e9é"}`, `null`, `[1,2]`,
	} {
		var j domain.JSON
		source := []byte(text)
		if err := json.Unmarshal(source, &j); err != nil {
			t.Fatal(err)
		}
		copy(source, strings.Repeat(" ", len(source))) // the bytes must be j's own
		b, err := json.Marshal(struct {
			Payload domain.JSON `json:"payload"`
		}{j}, jsontext.PreserveRawStrings(true))
		if err != nil || string(b) != `{"payload":`+text+`}` {
			t.Errorf("%s is written %s, %v", text, b, err)
		}
	}
}

func TestAbsentJSONIsNull(t *testing.T) {
	t.Parallel()
	for _, j := range []domain.JSON{nil, {}} {
		if b, err := j.MarshalJSON(); err != nil || string(b) != "null" {
			t.Errorf("%#v is written %s, %v", j, b, err)
		}
	}
	if got := string(domain.EmptyObject()); got != "{}" {
		t.Errorf("the empty object is %q", got)
	}
}

func TestReadingJSONAgainLeavesTheFirstCopyAlone(t *testing.T) {
	t.Parallel()
	var j domain.JSON
	if err := j.UnmarshalJSON([]byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	first := j
	if err := j.UnmarshalJSON([]byte(`{"b":2}`)); err != nil {
		t.Fatal(err)
	}
	if string(first) != `{"a":1}` || string(j) != `{"b":2}` {
		t.Errorf("the first copy is now %s, the second %s", first, j)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	d := domain.Digest(sha256.Sum256([]byte("abc")))
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	text, err := d.MarshalText()
	if err != nil || string(text) != want || d.String() != want {
		t.Errorf("written %s (%s, %v), want %s", d, text, err, want)
	}
	var back domain.Digest
	if err := back.UnmarshalText([]byte(want)); err != nil || back != d {
		t.Errorf("read back as %s, %v", back, err)
	}
	for _, wrong := range []string{"", "ba", want[:63], want[:62], want + "0", want + "00", "g" + want[1:], " " + want[1:]} {
		if err := back.UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q is read as %s", wrong, back)
		}
	}
}
