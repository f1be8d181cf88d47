package merchant_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/merchant"
)

func of(t testing.TB, zone string) merchant.Calendar {
	t.Helper()
	c, err := merchant.LoadCalendar(zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func day(t testing.TB, s string) merchant.Day {
	t.Helper()
	d, err := merchant.ParseDay(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ zone, day, start, hours string }{
		{"", "2026-11-20", "2026-11-20T00:00:00.000Z", "24h0m0s"},
		{"UTC", "2026-11-20", "2026-11-20T00:00:00.000Z", "24h0m0s"},
		{"Europe/Moscow", "2026-11-20", "2026-11-19T21:00:00.000Z", "24h0m0s"},
		{"Asia/Kathmandu", "2026-11-20", "2026-11-19T18:15:00.000Z", "24h0m0s"},
		{"Asia/Kolkata", "2026-11-20", "2026-11-19T18:30:00.000Z", "24h0m0s"},
		{"Pacific/Kiritimati", "2026-11-20", "2026-11-19T10:00:00.000Z", "24h0m0s"},
		{"Pacific/Niue", "2026-11-20", "2026-11-20T11:00:00.000Z", "24h0m0s"},
		{"Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00.000Z", "23h0m0s"},
		{"Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00.000Z", "25h0m0s"},
		{"Australia/Lord_Howe", "2026-10-04", "2026-10-03T13:30:00.000Z", "23h30m0s"},
		{"Africa/Cairo", "2026-04-24", "2026-04-23T22:00:00.000Z", "23h0m0s"}, // begins at 01:00
		{"Africa/Cairo", "2026-10-29", "2026-10-28T21:00:00.000Z", "25h0m0s"}, // 23:00 comes twice
		{"America/Havana", "2026-11-01", "2026-11-01T04:00:00.000Z", "25h0m0s"},
		{"America/Santiago", "2026-09-06", "2026-09-06T04:00:00.000Z", "23h0m0s"},
		{"Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00.000Z", "0s"}, // left out
		{"Europe/Berlin", "2040-12-31", "2040-12-30T23:00:00.000Z", "24h0m0s"},
	} {
		c, d := of(t, tt.zone), day(t, tt.day)
		start, end := c.Start(d), c.Start(d+1)
		if got := time.Duration(end-start) * time.Millisecond; start.String() != tt.start || got.String() != tt.hours {
			t.Errorf("%s, %s: %s, %s, want %s, %s", tt.zone, d, start, got, tt.start, tt.hours)
		}
	}
}

// TestDayOfStart compares with the dates that clocks in the zone show: before a day's
// start it is another day, from then on that day, and days begin on quarter hours.
func TestDayOfStart(t *testing.T) {
	t.Parallel()
	zones := []string{
		"", "Europe/Moscow", "Europe/Berlin", "America/New_York", "America/Havana", "America/St_Johns", "America/Asuncion", "Africa/Cairo",
		"Africa/Casablanca", "Asia/Beirut", "Asia/Kathmandu", "Asia/Gaza", "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Kiritimati", "Pacific/Niue",
	}
	calendars := make(map[string]merchant.Calendar)
	for _, zone := range zones {
		calendars[zone] = of(t, zone)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := calendars[rapid.SampledFrom(zones).Draw(t, "zone")]
		d := merchant.Day(rapid.IntRange(18_300, 30_000).Draw(t, "day"))
		start, end := c.Start(d), c.Start(d+1)
		if start%(15*60*1000) != 0 {
			t.Errorf("%s begins at %s", d, start)
		}
		at := start + domain.Instant(rapid.Int64Range(0, int64(end-start)-1).Draw(t, "at"))
		for at, want := range map[domain.Instant]merchant.Day{start - 1: d - 1, start: d, at: d, end - 1: d, end: d + 1} {
			if got := c.Day(at); got != want {
				t.Errorf("%s is on %s, want %s", at, got, want)
			}
		}
	})
}

func TestZonesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Local", "Mars/Olympus", "../etc/passwd", "europe"} {
		if _, err := merchant.LoadCalendar(zone); err == nil {
			t.Errorf("%q is a zone", zone)
		}
	}
	if c := (merchant.Caller{Project: projects.Project{Settings: domain.Settings{TimeZone: "Mars/Olympus"}}}).Calendar(); c.Zone() != time.UTC {
		t.Errorf("a zone that has gone is %s", c.Zone())
	}
	for _, s := range []string{"", "2026-13-01", "1969-12-31", "20.11.2026"} {
		if d, err := merchant.ParseDay(s); err == nil {
			t.Errorf("%q is %s", s, d)
		}
	}
}
