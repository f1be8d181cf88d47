package webhook_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"payledger/domain"
	"payledger/notifier/webhook"
)

// TestSignKnown is the example in the documentation of Svix, which the
// libraries in every language test themselves with.
func TestSignKnown(t *testing.T) {
	t.Parallel()
	got, err := webhook.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`),
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Webhook-Id":        {"msg_p5jXN8AQM9LWM0D4loKWxJek"},
		"Webhook-Timestamp": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	good := secretOf(t, 1)
	for what, secrets := range map[string][]string{
		"no secret":           nil,
		"no prefix":           {strings.TrimPrefix(good, "whsec_")},
		"a short secret":      {"whsec_" + good[6:6+28]},
		"the second is wrong": {good, "whsec_"},
		"no base64":           {"whsec_" + strings.Repeat("!", 44)},
	} {
		h, err := webhook.Sign("id", time.Now(), nil, secrets...)
		if err == nil || h != nil {
			t.Errorf("%s: signed as %v", what, h)
			continue
		}
		for _, s := range secrets {
			if len(s) > 6 && strings.Contains(err.Error(), s[6:]) {
				t.Errorf("%s: the error tells the secret: %v", what, err)
			}
		}
	}
}

func secretOf(t testing.TB, generation int) string {
	t.Helper()
	s, err := newSecrets(t).Secret("we_4kz7q2m9x1", 1, generation)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// trial is a notification as it arrives, and whether a receiver with the secret
// must accept it.
type trial struct {
	What    string      `json:"what"`
	Secret  string      `json:"secret"`
	Headers http.Header `json:"headers"`
	Body    []byte      `json:"body"` // in base64
	Good    bool        `json:"good"`
}

// trials signs a thousand bodies with Cyrillic, emoji and all else that JSON
// carries, and does to each what must not go unnoticed.
func trials(t testing.TB) []trial {
	t.Helper()
	random := rand.New(rand.NewPCG(4, 4))
	now := time.Now()
	older, newer, stranger := secretOf(t, 1), secretOf(t, 2), secretOf(t, 3)
	var all []trial
	for i := range 1000 {
		body, err := webhook.Body(randomNotification(t, random))
		if err != nil {
			t.Fatal(err)
		}
		sign := func(at time.Time, secrets ...string) http.Header {
			h, err := webhook.Sign(fmt.Sprintf("01M7W7EYW0Q6V8B0N5R7T%05d", i), at, body, secrets...)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		add := func(what, secret string, h http.Header, body []byte, good bool) {
			all = append(all, trial{fmt.Sprintf("%d: %s", i, what), secret, h, body, good})
		}
		changed := slices.Clone(body)
		changed[random.IntN(len(changed))] ^= byte(1 + random.IntN(255))
		one, both := sign(now, newer), sign(now, newer, older)
		add("as sent", newer, one, body, true)
		add("one byte changed", newer, one, changed, false)
		add("rotation, the new secret", newer, both, body, true)
		add("rotation, the old secret", older, both, body, true)
		add("rotation, one byte changed", older, both, changed, false)
		add("rotated out", older, one, body, false)
		add("another's secret", stranger, both, body, false)
		add("ten minutes old", newer, sign(now.Add(-10*time.Minute), newer), body, false)
		add("ten minutes ahead", newer, sign(now.Add(10*time.Minute), newer), body, false)
		other := one.Clone()
		other.Set("webhook-timestamp", fmt.Sprint(now.Unix()+1))
		add("another time", newer, other, body, false)
		other = one.Clone()
		other.Set("webhook-id", "01M7W7EYW0Q6V8B0N5R7T2M4C6")
		add("another id", newer, other, body, false)
	}
	return all
}

// randomNotification has a payload and a description of many scripts.
func randomNotification(t testing.TB, random *rand.Rand) webhook.Notification {
	t.Helper()
	words := []string{"Привет", "заказ №", "ёЁъ", "🍰", "👩‍👩‍👧", "𝔸", "日本語", "עברית", "plain", "a/b", "<&>", "\u2028", "'", "%s", "1e400"}
	text := func() string {
		var b strings.Builder
		for range 1 + random.IntN(8) {
			b.WriteString(words[random.IntN(len(words))])
		}
		return b.String()
	}
	n := notifications(t)[domain.KindPaymentPaid]
	n.Sequence, n.Position = 1+random.Uint64N(9), 1+random.Uint64()>>12
	n.At += domain.Instant(random.IntN(1_000_000_000))
	description := text()
	p := payment(t, domain.Paid)
	p.Description = &description
	p.Payload = domain.JSON(`{"k` + text() + `":"` + text() + `","n":` + fmt.Sprint(random.Int64()) + `}`)
	n.Data = p
	return n
}

// TestSignaturesOfficialGo lets the official Go library judge.
func TestSignaturesOfficialGo(t *testing.T) {
	t.Parallel()
	for _, c := range trials(t) {
		judge, err := standardwebhooks.NewWebhook(c.Secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := judge.Verify(c.Body, c.Headers); (err == nil) != c.Good {
			t.Errorf("%s: %v", c.What, err)
		}
	}
}
