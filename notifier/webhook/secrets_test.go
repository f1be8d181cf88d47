package webhook_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"payledger/notifier/webhook"
)

func masterKeys() map[int][32]byte {
	return map[int][32]byte{1: [32]byte([]byte(strings.Repeat("a", 32))), 2: [32]byte([]byte(strings.Repeat("b", 32)))}
}

func newSecrets(t testing.TB) *webhook.Secrets {
	t.Helper()
	s, err := webhook.NewSecrets(masterKeys(), 2)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSecretsStay pins the derivation: merchants hold these secrets, so they
// must come out the same forever. The values were computed by another program.
func TestSecretsStay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		endpoint            string
		version, generation int
		want                string
	}{
		{"we_1", 1, 1, "whsec_42git8w7S2vN41GMRxOBG60XfLRcG1rS8EPinvoGkLQ="},
		{"we_1", 1, 2, "whsec_ZE1oODF9VA8UkJFdGzkqHb11825oT5VZ148KJPrUco4="},
		{"we_1", 2, 1, "whsec_+o9c359b4yt2zHBS6WUJmOpzZrqAq/xvmgJKHe28iEw="},
		{"we_11", 1, 1, "whsec_LV7UTakyco/ZHwfhzfIyikJB/JqKnwAzR+2VqzdsXh8="},
	} {
		got, err := newSecrets(t).Secret(c.endpoint, c.version, c.generation)
		if err != nil || got != c.want {
			t.Errorf("Secret(%q, %d, %d) = %q, %v; want %q", c.endpoint, c.version, c.generation, got, err, c.want)
		}
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(got, "whsec_"))
		if err != nil || len(raw) != 32 {
			t.Errorf("%q is not 32 bytes in base64: %v", got, err)
		}
	}
}

func TestSecretsRefuse(t *testing.T) {
	t.Parallel()
	s := newSecrets(t)
	if s.Current() != 2 {
		t.Errorf("Current() = %d, want 2", s.Current())
	}
	for _, c := range []struct {
		endpoint            string
		version, generation int
	}{{"we_1", 3, 1}, {"we_1", 1, 0}, {"we_1", 1, -1}, {"", 1, 1}, {"we_\x001", 1, 1}} {
		if got, err := s.Secret(c.endpoint, c.version, c.generation); err == nil || got != "" {
			t.Errorf("Secret(%q, %d, %d) = %q without an error", c.endpoint, c.version, c.generation, got)
		}
	}
	if _, err := webhook.NewSecrets(masterKeys(), 3); err == nil {
		t.Error("a current version without a key was accepted")
	}
	if _, err := webhook.NewSecrets(map[int][32]byte{0: {}, 1: {}}, 1); err == nil {
		t.Error("version 0 was accepted")
	}
}
