package eventstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/domain/projects"
)

// An event of a version that this program does not know is damage, and so is one of another shape.
func TestVersionsFromBeyond(t *testing.T) {
	t.Parallel()
	r := sampled(domain.PaymentRouteAssigned{Route: "sandbox"}, nil)
	current, err := NewCodec().Encode(r.Stream, r.Sequence, r.Commit, Cause{}, domain.PaymentRouteAssigned{Route: "sandbox"})
	if err != nil {
		t.Fatal(err)
	}
	for _, with := range [][2]string{{`"version":2`, `"version":3`}, {`"version":2`, `"version":0`}, {`"route":`, `"channel":`}} {
		r.Body = []byte(strings.Replace(string(current), with[0], with[1], 1))
		var corrupt *CorruptError
		if _, err := NewCodec().Decode(r); !errors.As(err, &corrupt) || corrupt.Position != r.Position {
			t.Errorf("%s: %v, want a CorruptError at %d", with[1], err, r.Position)
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
		body, err := NewCodec().Encode(r.Stream, r.Sequence, r.Commit, Cause{}, issued)
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
