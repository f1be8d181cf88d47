package translog_test

import (
	"bytes"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"payledger/eventstore"
	"payledger/eventstore/translog"
)

func cosigner(tb testing.TB, seed byte, name string) *translog.Cosigner {
	tb.Helper()
	text, err := translog.NewWitnessKey(mathrand.NewChaCha8([32]byte{seed}), name)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := translog.ParseCosigner(text + "\n")
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func witness(tb testing.TB, key string) *translog.Witness {
	tb.Helper()
	w, err := translog.ParseWitness(key)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// TestCosignatures lets two witnesses sign a checkpoint, one of them twice.
func TestCosignatures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := signer(t, 1)
		log := verifier(t, s.VerifierKey())
		c := translog.Checkpoint{Origin: s.Origin(), Size: 5, Root: rootAt(t, 5, tree(t, 5))}
		signed, err := s.Sign(c)
		if err != nil {
			t.Fatal(err)
		}
		a, b := cosigner(t, 1, "node-a"), cosigner(t, 2, "auditor.example/b")
		for _, by := range []*translog.Cosigner{a, b, a} {
			time.Sleep(time.Minute)
			if signed, err = by.Cosign(log, signed); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := log.Open(signed); err != nil || got != c {
			t.Errorf("the log's own signature: %+v, %v", got, err)
		}
		if n := strings.Count(string(signed), "\n— "); n != 3 {
			t.Errorf("%d signatures, want the log's and one of each witness:\n%s", n, signed)
		}
		start := time.Now().Add(-3 * time.Minute)
		for _, want := range []struct {
			witness *translog.Witness
			at      time.Time
			ok      bool
		}{
			{witness(t, a.VerifierKey()), start.Add(3 * time.Minute), true},
			{witness(t, " "+b.VerifierKey()+"\n"), start.Add(2 * time.Minute), true},
			{witness(t, cosigner(t, 3, "node-a").VerifierKey()), time.Time{}, false},
		} {
			at, ok := want.witness.Cosigned(signed)
			if ok != want.ok || !at.Equal(want.at) {
				t.Errorf("%s: cosigned at %v, %v; want %v, %v", want.witness.Name(), at, ok, want.at, want.ok)
			}
		}
		w := witness(t, a.VerifierKey())
		line := bytes.Index(signed, []byte("— node-a "))
		for i := range signed {
			altered := bytes.Clone(signed)
			altered[i] ^= 1
			if _, ok := w.Cosigned(altered); ok && (i < bytes.Index(signed, []byte("\n\n")) || i >= line) {
				t.Fatalf("byte %d altered, and node-a still vouches: %q", i, altered)
			}
		}
		if _, err := a.Cosign(verifier(t, signer(t, 2).VerifierKey()), signed); err == nil {
			t.Error("cosigned what the log has not signed")
		}
	})
}

// TestWitnessKeys reads keys that are none, or were altered.
func TestWitnessKeys(t *testing.T) {
	t.Parallel()
	for i := range byte(100) { // base64 can contain the separator of a key's parts
		c := cosigner(t, i, "w")
		if w := witness(t, c.VerifierKey()); w.Name() != "w" || !w.Same(witness(t, c.VerifierKey())) {
			t.Errorf("key %q", c.VerifierKey())
		}
	}
	secret, public, err := note.GenerateKey(mathrand.NewChaCha8([32]byte{}), "log")
	if err != nil {
		t.Fatal(err)
	}
	key := cosigner(t, 1, "w").VerifierKey()
	for _, text := range []string{
		"", "w", "w+00000000", public, secret, "v" + key[1:], key[:len(key)-4], "w+00000000" + key[10:], key + "A",
	} {
		if _, err := translog.ParseWitness(text); err == nil {
			t.Errorf("%q is taken for a witness's key", text)
		}
	}
	private, err := translog.NewWitnessKey(mathrand.NewChaCha8([32]byte{1}), "w")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "PRIVATE+KEY+w", secret, key, strings.Replace(private, "+w+", "+v+", 1), private[:len(private)-4]} {
		if _, err := translog.ParseCosigner(text); err == nil || strings.Contains(err.Error(), private[20:]) {
			t.Errorf("%q is taken for a witness's private key, or shown: %v", text, err)
		}
	}
	for _, name := range []string{"", "two words", "a+b", "line\n"} {
		if _, err := translog.NewWitnessKey(mathrand.NewChaCha8([32]byte{}), name); err == nil {
			t.Errorf("%q is taken for a name", name)
		}
	}
}

func TestMalformedCosignatures(t *testing.T) {
	t.Parallel()
	w := witness(t, cosigner(t, 1, "w").VerifierKey())
	for _, text := range []string{"", "\n", "a\n1\nb\n", "a\n1\nb\n\n— w AAAA\n", "a\n1\nb\n\n— w " + strings.Repeat("A", 96) + "\n"} {
		if _, ok := w.Cosigned([]byte(text)); ok {
			t.Errorf("%q counts as cosigned", text)
		}
	}
}

// TestAddFrom takes a witness's cosignature over from another copy of the checkpoint,
// and none of another checkpoint, of another witness or that was altered.
func TestAddFrom(t *testing.T) {
	t.Parallel()
	s := signer(t, 1)
	log := verifier(t, s.VerifierKey())
	sign := func(size int) []byte {
		signed, err := s.Sign(translog.Checkpoint{Origin: s.Origin(), Size: eventstore.Position(size), Root: rootAt(t, size, tree(t, size))})
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	cosign := func(by *translog.Cosigner, signed []byte) []byte {
		cosigned, err := by.Cosign(log, signed)
		if err != nil {
			t.Fatal(err)
		}
		return cosigned
	}
	a, b := cosigner(t, 1, "a"), cosigner(t, 2, "b")
	here := cosign(a, sign(5))
	of := witness(t, b.VerifierKey())
	there := cosign(b, sign(5))
	for range 2 { // a second time it is replaced
		both, ok := of.AddFrom(there, here)
		if !ok {
			t.Fatal("not added")
		}
		here = both
	}
	if n := strings.Count(string(here), "\n— "); n != 3 {
		t.Errorf("%d signatures, want three:\n%s", n, here)
	}
	for _, key := range []string{a.VerifierKey(), b.VerifierKey()} {
		if _, ok := witness(t, key).Cosigned(here); !ok {
			t.Errorf("%s does not vouch for\n%s", key, here)
		}
	}
	if _, err := log.Open(here); err != nil {
		t.Error(err)
	}
	for name, cosigned := range map[string][]byte{
		"of another checkpoint": cosign(b, sign(4)), "of another witness": cosign(a, sign(5)), "not cosigned": sign(5), "nothing": nil,
		"altered": bytes.Replace(there, []byte("\n5\n"), []byte("\n6\n"), 1),
	} {
		if out, ok := of.AddFrom(cosigned, sign(5)); ok {
			t.Errorf("%s: added\n%s", name, out)
		}
	}
}
