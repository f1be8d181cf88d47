package webhook_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/notifier/webhook"

	"payledger/domain"
)

func TestDefaultSchedule(t *testing.T) {
	t.Parallel()
	s := webhook.DefaultSchedule()
	if got, want := s.String(), "0s,5s,30s,2m0s,10m0s,30m0s,2h0m0s,5h0m0s,10h0m0s,14h0m0s,20h0m0s,24h0m0s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	read, err := webhook.ParseSchedule("0, 5s,30s,2m,10m,30m,2h,5h,10h,14h,20h,24h")
	if err != nil || !slices.Equal(read, s) {
		t.Errorf("read as %v, %v", read, err)
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	s := webhook.Schedule{0, 4 * time.Second, 8 * time.Hour}
	for _, c := range []struct {
		attempts   int
		random     float64
		retryAfter time.Duration
		want       time.Duration
		more       bool
	}{
		{0, 0.9, 0, 0, true},
		{1, 0, 0, 4 * time.Second, true},
		{1, 0.5, 0, 4500 * time.Millisecond, true},
		{1, 1, 0, 5 * time.Second, true},
		{1, 7, 0, 5 * time.Second, true},
		{1, -7, 0, 4 * time.Second, true},
		{1, 1, time.Second, 5 * time.Second, true},
		{1, 1, time.Minute, time.Minute, true},
		{1, 0, 7 * time.Hour, 6 * time.Hour, true},
		{2, 0, 7 * time.Hour, 8 * time.Hour, true},
		{2, 0, -time.Hour, 8 * time.Hour, true},
		{2, 1, 0, 10 * time.Hour, true},
		{3, 0, time.Hour, 0, false},
		{-1, 0, 0, 0, false},
	} {
		if got, more := s.Next(c.attempts, c.random, c.retryAfter); got != c.want || more != c.more {
			t.Errorf("Next(%d, %v, %v) = %v, %v; want %v, %v", c.attempts, c.random, c.retryAfter, got, more, c.want, c.more)
		}
	}
}

func TestParseScheduleRefuses(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                             "empty",
		" ":                            "empty",
		"0s,":                          `wait 2: ""`,
		"0s,5":                         `wait 2: "5"`,
		"-1s":                          "not between",
		"0s,721h":                      "not between",
		"0s;5s":                        "wait 1",
		"9223372036854775808h":         "wait 1",
		strings.Repeat("0,", 64) + "0": "at most 64",
	} {
		s, err := webhook.ParseSchedule(text)
		if err == nil || !strings.Contains(err.Error(), says) || s != nil {
			t.Errorf("ParseSchedule(%q) = %v, %v; want an error that says %q", text, s, err, says)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	f.Add("0s,5s,30s,2m", 2, 0.5, int64(time.Hour))
	f.Add("720h,0", 1, 1.0, int64(-5))
	f.Fuzz(func(t *testing.T, text string, attempts int, random float64, retryAfter int64) {
		s, err := webhook.ParseSchedule(text)
		if err != nil {
			return
		}
		again, err := webhook.ParseSchedule(s.String())
		if err != nil || !slices.Equal(s, again) {
			t.Fatalf("%q: %v is read again as %v, %v", text, s, again, err)
		}
		wait, more := s.Next(attempts, random, time.Duration(retryAfter))
		if more != (attempts >= 0 && attempts < len(s)) {
			t.Fatalf("%v.Next(%d): more = %v", s, attempts, more)
		}
		if !more {
			return
		}
		least := max(s[attempts], min(time.Duration(retryAfter), domain.MaxRetryAfter))
		if wait < least || wait > max(s[attempts]+s[attempts]/4, least) {
			t.Fatalf("%v.Next(%d, %v, %v) = %v", s, attempts, random, time.Duration(retryAfter), wait)
		}
	})
}
