package translog_test

import (
	"bytes"
	"crypto/rand"
	mathrand "math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"payledger/domain"
	"payledger/eventstore/translog"
)

func signer(tb testing.TB, seed byte) *translog.Signer {
	tb.Helper()
	text, err := translog.NewKey(mathrand.NewChaCha8([32]byte{seed}), translog.Origin(domain.ID{1}))
	if err != nil {
		tb.Fatal(err)
	}
	s, err := translog.ParseSigner(text + "\n")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func verifier(tb testing.TB, key string) *translog.Verifier {
	tb.Helper()
	v, err := translog.ParseVerifier(key)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// TestSignedCheckpoint opens a checkpoint with package note alone, like any reader
// of C2SP notes, and with Verifier.
func TestSignedCheckpoint(t *testing.T) {
	t.Parallel()
	s := signer(t, 1)
	c := translog.Checkpoint{Origin: s.Origin(), Size: 70000, Root: rootAt(t, 5, tree(t, 5))}
	signed, err := s.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	independent, err := note.NewVerifier(s.VerifierKey())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(signed, note.VerifierList(independent))
	if err != nil {
		t.Fatal(err)
	}
	if want := "payledger/" + (domain.ID{1}).String() + "\n70000\n" + c.Root.String() + "\n"; n.Text != want {
		t.Errorf("signed text %q, want %q", n.Text, want)
	}
	v := verifier(t, " "+s.VerifierKey()+"\n")
	if got, err := v.Open(signed); err != nil || got != c {
		t.Errorf("opened %+v, %v", got, err)
	}
	if v.Key() != s.VerifierKey() || v.Origin() != s.Origin() {
		t.Errorf("verifier %q of %q", v.Key(), v.Origin())
	}
	if _, err := verifier(t, signer(t, 2).VerifierKey()).Open(signed); err == nil || !strings.Contains(err.Error(), "not signed by the key") {
		t.Errorf("another key: %v", err)
	}
	for i := range signed {
		altered := bytes.Clone(signed)
		altered[i] ^= 1
		if _, err := v.Open(altered); err == nil {
			t.Fatalf("byte %d altered, and the checkpoint passes: %q", i, altered)
		}
	}
	for n := range signed {
		if _, err := v.Open(signed[:n]); err == nil {
			t.Fatalf("cut to %d bytes, and the checkpoint passes", n)
		}
	}
	other := c
	other.Origin = "payledger/another"
	if _, err := s.Sign(other); err == nil {
		t.Error("the key signs for another log")
	}
}

func TestLogOf(t *testing.T) {
	t.Parallel()
	id := domain.ID{1, 0x9c, 0xde, 0xfa}
	if got, ok := translog.LogOf(translog.Origin(id)); !ok || got != id {
		t.Errorf("log %v, %v", got, ok)
	}
	for _, origin := range []string{"", "payledger/", id.String(), "payledger/" + strings.ToLower(id.String()), "sumdb/" + id.String()} {
		if _, ok := translog.LogOf(origin); ok {
			t.Errorf("%q is taken for a log of ours", origin)
		}
	}
}

// TestForeignNotes signs texts that are not a checkpoint of the log with its key.
func TestForeignNotes(t *testing.T) {
	t.Parallel()
	secret, public, err := note.GenerateKey(rand.Reader, "payledger/x")
	if err != nil {
		t.Fatal(err)
	}
	by, err := note.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	root := rootAt(t, 1, tree(t, 1)).String()
	v := verifier(t, public)
	open := func(text string) error {
		signed, err := note.Sign(&note.Note{Text: text}, by)
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Open(signed)
		return err
	}
	for _, text := range []string{
		"hello\n", "payledger/x\n1\n", "payledger/y\n1\n" + root + "\n", "payledger/x\n01\n" + root + "\n",
		"payledger/x\n-1\n" + root + "\n", "payledger/x\n+1\n" + root + "\n", "payledger/x\n9223372036854775808\n" + root + "\n",
		"payledger/x\n1\n" + root[1:] + "\n", "payledger/x\n1\n" + root + root + "\n", "\n1\n" + root + "\n",
		"payledger/x\n1\n" + root[:42] + "d=\n", // the same bytes, not their one spelling
	} {
		if open(text) == nil {
			t.Errorf("taken for a checkpoint: %q", text)
		}
	}
	if err := open("payledger/x\n1\n" + root + "\nextension\n"); err != nil {
		t.Errorf("with an extension: %v", err)
	}
}

// TestKeysRoundTrip makes many keys, because base64 can contain the separator of a
// key's parts.
func TestKeysRoundTrip(t *testing.T) {
	t.Parallel()
	for i := range byte(200) {
		s := signer(t, i)
		signed, err := s.Sign(translog.Checkpoint{Origin: s.Origin()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verifier(t, s.VerifierKey()).Open(signed); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "PRIVATE+KEY+x", signer(t, 1).VerifierKey()} {
		if _, err := translog.ParseSigner(text); err == nil {
			t.Errorf("%q is taken for a key", text)
		}
		if _, err := translog.ParseVerifier("PRIVATE+" + text); err == nil {
			t.Errorf("%q is taken for a verifier key", text)
		}
	}
}
