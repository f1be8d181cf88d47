package eventstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/domain/projects"
)

// replacing is an upcaster that renames a member.
func replacing(from int, old, with string) Upcaster {
	return Upcaster{Type: domain.TypePaymentRouteAssigned, From: from, Lift: func(v jsontext.Value) (jsontext.Value, error) {
		if !strings.Contains(string(v), old) {
			return nil, errors.New("nothing to rename")
		}
		return jsontext.Value(strings.Replace(string(v), old, with, 1)), nil
	}}
}

// thirdVersion is a codec in which payment.route_assigned has had two other
// shapes.
func thirdVersion(upcasters ...Upcaster) *Codec {
	c := NewCodec()
	e := c.byName[domain.TypePaymentRouteAssigned]
	e.Version = 3
	c.byName[e.Name] = e
	for _, u := range upcasters {
		c.upcast[version{u.Type, u.From}] = u
	}
	return c
}

func TestUpcastersLiftStepByStep(t *testing.T) {
	t.Parallel()
	first, second := replacing(1, `"channel"`, `"way"`), replacing(2, `"way"`, `"route"`)
	want := domain.PaymentRouteAssigned{Route: "sandbox"}
	r := sampled(want, nil)
	current, err := thirdVersion().Encode(r.Stream, r.Sequence, r.Commit, want)
	if err != nil || !strings.Contains(string(current), `"version":3,`) {
		t.Fatalf("%s, %v", current, err)
	}
	stored := func(version, member string) Stored {
		r.Body = []byte(strings.NewReplacer(`"version":3`, `"version":`+version, `"route":`, member+`:`).Replace(string(current)))
		return r
	}
	c := thirdVersion(first, second)
	for version, member := range map[string]string{"1": `"channel"`, "2": `"way"`, "3": `"route"`} {
		record := stored(version, member)
		before := string(record.Body)
		got, err := c.Decode(record)
		if err != nil {
			t.Errorf("version %s: %v", version, err)
		}
		if d := cmp.Diff(domain.Event(want), got); d != "" {
			t.Errorf("version %s (-want +got):\n%s", version, d)
		}
		if string(record.Body) != before {
			t.Errorf("version %s: the stored bytes were changed", version)
		}
	}
	for what, bad := range map[string]struct {
		codec *Codec
		r     Stored
	}{
		"a missing step":        {thirdVersion(first), stored("1", `"channel"`)},
		"a missing first step":  {thirdVersion(second), stored("1", `"channel"`)},
		"a step that fails":     {c, stored("1", `"other"`)},
		"a version from beyond": {c, stored("4", `"route"`)},
		"the wrong shape":       {c, stored("3", `"channel"`)},
	} {
		_, err := bad.codec.Decode(bad.r)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Position != bad.r.Position {
			t.Errorf("%s: %v, want a CorruptError at %d", what, err, bad.r.Position)
		}
	}
}

// A key from before the scope webhooks:write keeps its permissions; a newer key
// does not gain any.
func TestKeysKeepWebhooks(t *testing.T) {
	t.Parallel()
	issued := projects.KeyIssued{KeyID: "key_1", Hash: domain.Digest{7}}
	r := sampled(issued, nil)
	for _, c := range []struct {
		version string
		scopes  []projects.Scope
		want    []projects.Scope
	}{
		{"1", []projects.Scope{"payments:write", "read"}, []projects.Scope{"payments:write", "webhooks:write", "read"}},
		{"1", []projects.Scope{"refunds:write", "read"}, []projects.Scope{"refunds:write", "read"}},
		{"2", []projects.Scope{"payments:write", "read"}, []projects.Scope{"payments:write", "read"}},
		{"3", []projects.Scope{"payments:write", "read"}, []projects.Scope{"payments:write", "read"}},
	} {
		issued.Scopes = c.scopes
		body, err := NewCodec().Encode(r.Stream, r.Sequence, r.Commit, issued)
		if err != nil {
			t.Fatal(err)
		}
		r.Body = []byte(strings.Replace(string(body), `"version":3`, `"version":`+c.version, 1))
		got, err := NewCodec().Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		issued.Scopes = c.want
		if d := cmp.Diff(domain.Event(issued), got); d != "" {
			t.Errorf("version %s (-want +got):\n%s", c.version, d)
		}
	}
}

// Every version that is not the newest has the step that leads on from it.
func TestUpcastersAreComplete(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	steps := 0
	for _, e := range EventTypes() {
		for v := 1; v < e.Version; v++ {
			if _, ok := c.upcast[version{e.Name, v}]; !ok {
				t.Errorf("event %s: no upcaster from version %d", e.Name, v)
			}
			steps++
		}
	}
	if n := len(upcasters()); n != steps {
		t.Errorf("there are %d upcasters, the versions of the events need %d", n, steps)
	}
}
