package domain_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payledger/domain"
)

func TestInstantIsWrittenInUTCWithMilliseconds(t *testing.T) {
	t.Parallel()
	moscow := time.FixedZone("MSK", 3*60*60)
	for want, given := range map[string]time.Time{
		"1970-01-01T00:00:00.000Z": time.Unix(0, 0),
		"2026-11-20T10:15:30.123Z": time.Date(2026, 11, 20, 13, 15, 30, 123_999_999, moscow),
		"2026-11-20T10:15:30.000Z": time.Date(2026, 11, 20, 10, 15, 30, 0, time.UTC),
		"1969-12-31T23:59:59.999Z": time.Unix(0, -1),
		"2028-02-29T23:59:59.999Z": time.Date(2028, 2, 29, 23, 59, 59, 999_000_000, time.UTC),
		"0000-01-01T00:00:00.000Z": time.Date(0, 1, 1, 0, 0, 0, 0, moscow),
		"9999-12-31T23:59:59.999Z": time.Unix(1795169730123, 0), // milliseconds taken for seconds
	} {
		i := domain.InstantOf(given)
		text, err := i.MarshalText()
		if err != nil || string(text) != want || i.String() != want {
			t.Errorf("%v is written %s (%s, %v), want %s", given, i, text, err, want)
		}
		if z := i.Time().Location(); z != time.UTC {
			t.Errorf("%s is in zone %v", i, z)
		}
	}
}

func TestInstantIsReadFromRFC3339(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-11-20T10:15:30Z":                "2026-11-20T10:15:30.000Z",
		"2026-11-20T10:15:30.1Z":              "2026-11-20T10:15:30.100Z",
		"2026-11-20T10:15:30.123999999Z":      "2026-11-20T10:15:30.123Z",
		"2026-11-20T13:15:30.123+03:00":       "2026-11-20T10:15:30.123Z",
		"2026-11-20T00:15:30-10:00":           "2026-11-20T10:15:30.000Z",
		"9999-12-31T23:59:59.9999Z":           "9999-12-31T23:59:59.999Z",
		"9999-12-31T18:59:59-05:00":           "9999-12-31T23:59:59.000Z",
		"9999-12-31T19:00:00-05:00":           "",
		"9999-12-31T23:59:59.999-00:01":       "",
		"0000-01-01T00:00:00Z":                "0000-01-01T00:00:00.000Z",
		"0000-01-01T00:00:00+00:01":           "",
		"":                                    "",
		"2026-11-20":                          "",
		"2026-11-20T10:15:30":                 "",
		"2026-11-20 10:15:30Z":                "",
		"2026-11-20T10:15Z":                   "",
		"2026-11-20T1:15:30Z":                 "",
		"2026-11-20T10:15:30,123Z":            "",
		"2026-11-31T10:15:30Z":                "",
		"2026-11-20T24:00:00Z":                "",
		"1795169730":                          "",
		"2026-11-20T10:15:30Z ":               "",
		"Fri, 20 Nov 2026 10:15:30 GMT":       "",
		"２０２６-11-20T10:15:30Z":                "",
		"2026-11-20T10:15:30.123Z2026-11-20T": "",
	} {
		i := domain.Instant(-7)
		err := i.UnmarshalText([]byte(text))
		switch {
		case want == "" && (err == nil || i != -7):
			t.Errorf("%q is read as %s, %v", text, i, err)
		case want != "" && (err != nil || i.String() != want):
			t.Errorf("%q is read as %s, %v, want %s", text, i, err, want)
		}
	}
}

func TestEveryInstantSurvivesWritingAndReading(t *testing.T) {
	t.Parallel()
	seconds := rapid.Int64Range(-1<<40, 1<<40) // beyond what the text can tell
	rapid.Check(t, func(t *rapid.T) {
		i := domain.InstantOf(time.Unix(seconds.Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")))
		b, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		var back domain.Instant
		if err := json.Unmarshal(b, &back); err != nil || back != i {
			t.Fatalf("%s is written %s and reads back as %s, %v", i, b, back, err)
		}
		if got := domain.InstantOf(i.Time()); got != i {
			t.Fatalf("%s becomes %s by way of time.Time", i, got)
		}
	})
}

func TestInstantAddCutsToMilliseconds(t *testing.T) {
	t.Parallel()
	i := domain.Instant(1000)
	for d, want := range map[time.Duration]domain.Instant{
		0: 1000, time.Millisecond: 1001, 1_999_999: 1001, -time.Second: 0, time.Hour: 3_601_000,
	} {
		if got := i.Add(d); got != want {
			t.Errorf("1000 ms + %v = %d ms, want %d", d, got, want)
		}
	}
}

// MarshalText writes the same text as package time, and UnmarshalText reads it as
// package time does, also with one character changed.
func TestInstantIsWrittenAndReadAsTimeDoes(t *testing.T) {
	t.Parallel()
	const layout = "2006-01-02T15:04:05.000Z07:00"
	rapid.Check(t, func(t *rapid.T) {
		i := domain.Instant(rapid.Int64Range(-99_000_000_000_000, 300_000_000_000_000).Draw(t, "instant"))
		text, err := i.MarshalText()
		if want := i.Time().Format(layout); err != nil || string(text) != want {
			t.Fatalf("%d is written %s (%v), want %s", i, text, err, want)
		}
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		text[at] = rapid.SampledFrom([]byte("0123456789-:.TZ, /;")).Draw(t, "byte")
		want, wantErr := time.Parse(time.RFC3339Nano, string(text))
		if strings.Contains(string(text), ",") || text[13] != ':' {
			wantErr = errors.New("not RFC 3339")
		}
		var got domain.Instant
		if err := got.UnmarshalText(text); (err == nil) != (wantErr == nil) || (err == nil && got != domain.InstantOf(want)) {
			t.Fatalf("%s is read as %s (%v), want %s (%v)", text, got, err, want, wantErr)
		}
	})
}
