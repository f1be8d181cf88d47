package checkout

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
)

func (l *Links) token(version int, id domain.ID) string {
	return string(l.appendToken(nil, version, id))
}

const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func newTestLinks(t testing.TB) *Links {
	t.Helper()
	l, err := NewLinks(map[int][32]byte{1: {1}, 2: {2}, 12: {12}}, 2)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func anyID(t *rapid.T) domain.ID {
	return domain.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
}

func TestTokenRoundTrip(t *testing.T) {
	t.Parallel()
	l := newTestLinks(t)
	rapid.Check(t, func(t *rapid.T) {
		id := anyID(t)
		version := rapid.SampledFrom([]int{1, 2, 12}).Draw(t, "version")
		url := l.URL("https://pay.example.com", version, id)
		token, ok := strings.CutPrefix(url, "https://pay.example.com/p/")
		if !ok || strings.Trim(token, base64url) != "" {
			t.Fatalf("url %q", url)
		}
		if got, ok := l.Open(token); !ok || got != id {
			t.Fatalf("Open(%q) = %v, %v; want %v", token, got, ok, id)
		}
		if strings.Contains(url, id.String()) {
			t.Fatalf("url %q shows the id", url)
		}
	})
}

// Golden tokens: links are sent to customers, so their form must outlive this
// program.
func TestTokenFormat(t *testing.T) {
	t.Parallel()
	l := newTestLinks(t)
	id, _ := domain.ParseID("01M7W78FJBM8T4R7B5N0C1D2E3")
	for version, want := range map[int]string{
		1: "1qHBHzststGshbchthEhHbA",
		2: "2ZUB9Dwhy3SjqKAq4KFjWpQ",
	} {
		if got := l.token(version, id); got != want {
			t.Errorf("version %d: token %q, want %q", version, got, want)
		}
	}
}

func TestRotationKeepsOldLinks(t *testing.T) {
	t.Parallel()
	before, err := NewLinks(map[int][32]byte{1: {1}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	after := newTestLinks(t)
	id := domain.ID{1, 2, 3}
	old := before.token(before.Current(), id)
	if got, ok := after.Open(old); !ok || got != id {
		t.Errorf("after the rotation an old link opens to %v, %v", got, ok)
	}
	fresh := after.token(after.Current(), id)
	if fresh == old {
		t.Error("the new key makes the old token")
	}
	if _, ok := before.Open(fresh); ok {
		t.Error("a token of an unknown version opens")
	}
}

// Nobody but URL can make a token that opens to a given payment.
func TestMutatedTokensMissThePayment(t *testing.T) {
	t.Parallel()
	l := newTestLinks(t)
	rapid.Check(t, func(t *rapid.T) {
		id := anyID(t)
		token := []byte(l.token(2, id))
		i := rapid.IntRange(0, len(token)-1).Draw(t, "at")
		with := rapid.Byte().Draw(t, "with")
		if token[i] == with {
			with ^= 1
		}
		token[i] = with
		if got, ok := l.Open(string(token)); ok && got == id {
			t.Fatalf("%q opens to the same payment", token)
		}
	})
}

func TestOpenRefusesOtherSpellings(t *testing.T) {
	t.Parallel()
	l := newTestLinks(t)
	id := domain.ID{255, 254, 253, 252}
	good := l.token(2, id)
	block := good[1:]
	last := strings.IndexByte(base64url, block[21])
	tests := map[string]string{
		"empty":               "",
		"no version":          block,
		"unknown version":     "3" + block,
		"version zero":        "0" + block,
		"leading zero":        "02" + block,
		"signed version":      "+2" + block,
		"negative version":    "-2" + block,
		"huge version":        strings.Repeat("9", 40) + block,
		"Arabic digit":        "٢" + block,
		"padded":              good + "==",
		"one short":           good[:len(good)-1],
		"one long":            good + "A",
		"trailing bits":       "2" + block[:21] + string(base64url[last^1]),
		"line break":          "2" + block[:10] + "\n" + block[10:],
		"line break instead":  "2" + block[:10] + "\n" + block[11:],
		"line breaks instead": "2" + block[:10] + "\n\n" + block[12:],
		"standard alphabet":   "2" + strings.Repeat("+", 21) + "A",
		"slashes":             "2" + strings.Repeat("/", 21) + "A",
		"blank":               " " + good,
		"the id itself":       id.String(),
		"status path":         good + "/status",
	}
	for name, token := range tests {
		if got, ok := l.Open(token); ok {
			t.Errorf("%s: %q opens to %v", name, token, got)
		}
	}
}

func TestNewLinksRefusesBadKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		master  map[int][32]byte
		current int
	}{
		"no keys":         {nil, 1},
		"current missing": {map[int][32]byte{1: {}}, 2},
		"version zero":    {map[int][32]byte{0: {}, 1: {}}, 1},
	} {
		if _, err := NewLinks(c.master, c.current); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestURLOfALostKeyPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a link was made up for a missing master key")
		}
	}()
	newTestLinks(t).URL("https://pay.example.com", 7, domain.ID{})
}

func FuzzOpen(f *testing.F) {
	l := newTestLinks(f)
	f.Add(l.token(1, domain.ID{1}))
	f.Add(l.token(12, domain.ID{255}))
	f.Add("2\n" + strings.Repeat("A", 21))
	f.Add("2\n\n" + strings.Repeat("A", 20))
	f.Add("")
	f.Fuzz(func(t *testing.T, token string) {
		id, version, ok := l.open(token)
		if ok && l.token(version, id) != token {
			t.Errorf("%q opens, but %q is the token of what is in it", token, l.token(version, id))
		}
	})
}

func TestReturnURL(t *testing.T) {
	t.Parallel()
	l := newTestLinks(t)
	p := domain.Payment{ID: domain.ID{1, 2, 3}, Link: domain.Link{Base: "https://pay.example.com", KeyVersion: l.Current()}}
	if got, want := l.ReturnURL(p), l.URL(p.Link.Base, l.Current(), p.ID)+"?returned=1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	p.Link.KeyVersion = 99 // its key is gone: the provider still gets an address
	if got := l.ReturnURL(p); got != "https://pay.example.com" {
		t.Error(got)
	}
}
