package domain

import (
	"strings"
	"testing"
)

func TestTraceparent(t *testing.T) {
	t.Parallel()
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	const sampled, unsampled = "00-" + trace + "-" + parent + "-01", "00-" + trace + "-" + parent + "-00"
	for _, c := range []struct{ in, want string }{
		{sampled, sampled},
		{unsampled, unsampled},
		{sampled[:53] + "ff", sampled[:53] + "03"},
		{sampled[:53] + "f8", unsampled},
		{"01" + unsampled[2:], unsampled},
		{"cc" + sampled[2:] + "-what-the-future-brings", sampled},
		{"", ""},
		{sampled[:54], ""},
		{sampled + "-01", ""}, // version 00 has no more fields
		{"cc" + sampled[2:] + "x", ""},
		{"ff" + sampled[2:], ""},
		{strings.ToUpper(sampled), ""},
		{strings.Replace(sampled, trace, strings.Repeat("0", 32), 1), ""},
		{strings.Replace(sampled, parent, strings.Repeat("0", 16), 1), ""},
		{strings.Replace(sampled, "0af", "0ag", 1), ""},
		{sampled[:54] + "g", ""},
		{strings.ReplaceAll(sampled, "-", "_"), ""},
		{" " + sampled, ""},
		{"01" + sampled[2:] + "-" + strings.Repeat("a", 300), ""},
	} {
		got, ok := ParseTraceparent(c.in)
		if string(got) != c.want || ok != (c.want != "") {
			t.Errorf("%q: %q, %t, want %q", c.in, got, ok, c.want)
		}
		if again, ok := ParseTraceparent(string(got)); ok && again != got {
			t.Errorf("%q is read as %q", got, again)
		}
		if got != "" && (got.Trace() != trace || got.Parent() != parent) {
			t.Errorf("%q: trace %q, parent %q", got, got.Trace(), got.Parent())
		}
	}
	if none := Traceparent(""); none.Trace() != "" || none.Parent() != "" {
		t.Error("no trace has ids")
	}
}
