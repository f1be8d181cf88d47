package eventstore

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/domain/projects"
)

const testTrace = domain.Traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

func testCauses() []Cause {
	return []Cause{
		{}, {Actor: "operator:Мария П."}, {Trace: testTrace}, {Actor: "key_01M7W78FJBM8T4R7B5N0C1D2E3", Trace: testTrace},
	}
}

// A cause stands in the line, and is no part of the event.
func TestCauseInTheLine(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	for _, why := range testCauses() {
		for _, e := range EventTypes() {
			r := sampled(e.Sample, nil)
			var err error
			if r.Body, err = c.Encode(r.Stream, r.Sequence, r.Commit, why, e.Sample); err != nil {
				t.Fatal(err)
			}
			if got := CauseOf(r.Body); got != why {
				t.Errorf("%s: cause %+v, want %+v", e.Name, got, why)
			}
			if _, event := c.decodeOwn(r); event == nil {
				t.Errorf("%s: the quick way does not read its own line", e.Name)
			}
			plain, err := c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, e.Sample)
			if err != nil {
				t.Fatal(err)
			}
			r.Body = bytes.Replace(r.Body, []byte(`,"sequence"`), []byte(` ,"sequence"`), 1) // for the general way
			got, err := c.Decode(r)
			if err != nil {
				t.Fatal(err)
			}
			again, err := c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, got)
			if err != nil || !bytes.Equal(again, plain) {
				t.Errorf("%s: %s, want %s", e.Name, again, plain)
			}
		}
	}
}

// What is no cause of ours is refused, in both ways of decoding.
func TestWrongCauses(t *testing.T) {
	t.Parallel()
	c, e := NewCodec(), projects.ProjectDisabled{}
	r := sampled(e, nil)
	good, err := c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, e)
	if err != nil {
		t.Fatal(err)
	}
	for _, members := range []string{
		`,"actor":"a\u0000b"`, `,"actor":"a\"b"`, `,"actor":7`, `,"actor":"` + strings.Repeat("a", MaxActor+1) + `"`, `,"actor":"` + "\xff" + `"`,
		`,"traceparent":"00-1-2-01"`, `,"traceparent":"01` + string(testTrace[2:]) + `"`, `,"cause":{}`, `,"actor":"a","actor":"b"`,
	} {
		r.Body = bytes.Replace(good, []byte(`,"data"`), []byte(members+`,"data"`), 1)
		if _, err := c.Decode(r); err == nil {
			t.Errorf("%s was decoded", members)
		}
		if got := CauseOf(r.Body); got != (Cause{}) {
			t.Errorf("%s: %+v", members, got)
		}
	}
	for _, why := range []Cause{{Actor: "a\"b"}, {Trace: "x"}, {Actor: "a\nb"}} {
		if line, err := c.Encode(r.Stream, 1, r.Commit, why, e); err == nil {
			t.Errorf("%+v was encoded: %s", why, line)
		}
	}
}

func TestOperatorActor(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"alice": true, "Мария П.": true, "uid 1000": true, "": false, "a\"b": false, "a\\b": false, "a\nb": false, "\xff": false,
		strings.Repeat("a", MaxActor): false, strings.Repeat("a", MaxActor-len("operator:")): true,
	} {
		if actor, err := OperatorActor(name); (err == nil) != good || good && actor != "operator:"+name {
			t.Errorf("%q: %q, %v", name, actor, err)
		}
	}
}

// No name of a stream and no data is taken for a cause.
func TestCauseOfAnyLine(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	rapid.Check(t, func(t *rapid.T) {
		why := rapid.SampledFrom(testCauses()).Draw(t, "cause")
		tricky := rapid.SampledFrom([]string{"x", `","at":"2026-11-20T10:19:02.400Z","actor":"evil","data":`, `,"actor":"evil"`})
		s := Stream{Project: tricky.Draw(t, "project"), Kind: tricky.Draw(t, "kind"), ID: tricky.Draw(t, "id")}
		e := projects.ProjectRegistered{Name: tricky.Draw(t, "name"), Settings: domain.DefaultSettings()}
		body, err := c.Encode(s, 1, domain.ID{1}, why, e)
		if err != nil {
			t.Fatal(err)
		}
		if got := CauseOf(body); got != why {
			t.Fatalf("%s: %+v, want %+v", body, got, why)
		}
	})
}
