package webhook

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"payledger/domain"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                                 0,
		"0":                                0,
		"7":                                7 * time.Second,
		" 007\t":                           7 * time.Second,
		"21600":                            domain.MaxRetryAfter,
		"21601":                            domain.MaxRetryAfter,
		"99999999999999999999999":          domain.MaxRetryAfter,
		"-7":                               0,
		"+7":                               0,
		"7.5":                              0,
		"1e3":                              0,
		"soon":                             0,
		"Sat, 21 Nov 2026 10:00:30 GMT":    30 * time.Second,
		"Saturday, 21-Nov-26 10:00:30 GMT": 30 * time.Second,
		"Sat Nov 21 10:00:30 2026":         30 * time.Second,
		"Sat, 21 Nov 2026 09:59:30 GMT":    0,
		"Sat, 21 Nov 2026 16:00:01 GMT":    domain.MaxRetryAfter,
		"Fri, 31 Dec 9999 23:59:59 GMT":    domain.MaxRetryAfter,
		"Sat, 01 Jan 0000 00:00:00 GMT":    0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "120", "99999999999999999999", "Sat, 21 Nov 2026 10:00:30 GMT", "Sat Nov 21 10:00:30 2026"} {
		f.Add(s, int64(1795255230))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		now := time.Unix(unix%(1<<36), 0)
		got := retryAfter(value, now)
		if got < 0 || got > domain.MaxRetryAfter {
			t.Fatalf("%q: %v", value, got)
		}
		if later := retryAfter(value, now.Add(time.Hour)); later > got {
			t.Fatalf("%q: %v, and an hour later still %v", value, got, later)
		}
		date := now.Add(got).UTC()
		if date.Year() >= 0 && date.Year() <= 9999 {
			if again := retryAfter(date.Format(http.TimeFormat), now); again != got {
				t.Fatalf("%v as a date is read as %v", got, again)
			}
		}
	})
}

func TestShowable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                              "",
		"plain\n\ttext\r\n":             "plain\n\ttext\n",
		"Привет 🍰 日本":                   "Привет 🍰 日本",
		"\x1b[2Jgone\x07\x00\x7f\u0085": "�[2Jgone����",
		"a\rb":                          "a�b",
		"\u202egnp.exe\u200b\ufeff":     "�gnp.exe��",
		"\xff\xfe half \xd0":            "�� half ",
		"fin\xf0\x9f\x8d":               "fin",
		"\ufffd":                        "\ufffd",
	} {
		if got := showable([]byte(in)); string(got) != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	got := readAnswer(strings.NewReader(strings.Repeat("\x00", 3000)))
	if len(got) > keptAnswer || len(got) < keptAnswer-3 || !utf8.Valid(got) {
		t.Errorf("%d bytes kept", len(got))
	}
	if got := readAnswer(strings.NewReader(strings.Repeat("я", 3000))); !bytes.Equal(got, []byte(strings.Repeat("я", 512))) {
		t.Errorf("kept %q", got)
	}
}
