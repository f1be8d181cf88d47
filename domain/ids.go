package domain

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// ID identifies a payment, a refund or an event: a ULID, written as 26
// characters of Crockford base 32 in upper case.
type ID = ulid.ULID

// ParseID reads the canonical form of an ID only. It rejects lower case,
// look-alike letters and overflowing values, which ulid.Parse would map to
// other ids.
func ParseID(s string) (ID, bool) {
	id, err := ulid.ParseStrict(s)
	if err != nil || id.String() != s {
		return ID{}, false
	}
	return id, true
}

// IDs issues ids. The time part of an id is never less than that of the id
// before, even when the clock is set back. Safe for concurrent use.
type IDs struct {
	now func() time.Time

	mu      sync.Mutex
	last    uint64
	entropy *bufio.Reader
}

// NewIDs returns a source of ids. The 80 random bits of each id come from
// entropy, which is read some ids ahead. last is the newest id in use, or the
// zero ID.
func NewIDs(now func() time.Time, entropy io.Reader, last ID) *IDs {
	return &IDs{now: now, entropy: bufio.NewReaderSize(entropy, readAhead*randomSize), last: last.Time()}
}

// Observe notes an id that was issued elsewhere: later ones do not have an earlier time.
func (s *IDs) Observe(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, id.Time())
}

const (
	randomSize = 10 // bytes of an id
	readAhead  = 32 // ids
)

// Next issues an id. An event recorded under the id has the id's time: see
// IDTime.
func (s *IDs) Next() ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return s.issue()
}

// Pair issues two ids of one instant: one for a new object and one for the
// event that creates it, so that the object's id, the event and created_at
// name the same time.
func (s *IDs) Pair() (object, event ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	return s.issue(), s.issue()
}

func (s *IDs) advance() { s.last = max(s.last, ulid.Timestamp(s.now())) }

func (s *IDs) issue() ID {
	var id ID
	random, err := s.entropy.Peek(randomSize)
	if err == nil {
		err = id.SetTime(s.last)
	}
	if err != nil {
		// Only when the random source fails or in the year 10889: no id may be
		// issued then.
		panic(fmt.Sprintf("issuing an id: %v", err))
	}
	copy(id[len(id)-randomSize:], random)
	_, _ = s.entropy.Discard(randomSize) // cannot fail: the bytes are buffered
	return id
}

// IDTime is the instant in the time part of an id.
func IDTime(id ID) Instant { return Instant(id.Time()) }

// Instant is a moment in milliseconds since the Unix epoch. Its text is UTC in the form
// 2006-01-02T15:04:05.000Z.
type Instant int64

const instantLayout = "2006-01-02T15:04:05.000Z07:00"

// The first and the last instant that the text can tell: the years 0 to 9999.
const (
	firstInstant Instant = -62167219200000
	lastInstant  Instant = 253402300799999
)

// InstantOf truncates a time to milliseconds. It is the nearest instant that the text can tell.
func InstantOf(t time.Time) Instant {
	return min(max(Instant(t.UnixMilli()), firstInstant), lastInstant)
}

// Time is the instant as a time.Time in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add returns the instant d later; d is truncated to milliseconds.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// String writes the instant in RFC 3339 form with milliseconds.
func (i Instant) String() string { return i.Time().Format(instantLayout) }

// In writes the instant in the time of a zone, with its offset.
func (i Instant) In(zone *time.Location) string { return i.Time().In(zone).Format(instantLayout) }

// MarshalText writes the instant as String does.
func (i Instant) MarshalText() ([]byte, error) {
	return i.AppendText(make([]byte, 0, len(instantLayout)))
}

// AppendText appends the instant as String writes it.
func (i Instant) AppendText(b []byte) ([]byte, error) {
	t := i.Time()
	b = t.AppendFormat(b, time.RFC3339)
	b[len(b)-1] = '.' // in the place of the Z
	return append(appendDigits(b, t.Nanosecond()/int(time.Millisecond), 3), 'Z'), nil
}

func appendDigits(b []byte, n, width int) []byte {
	b = append(b, "0000"[:width]...)
	for i := len(b) - 1; n > 0; i, n = i-1, n/10 {
		b[i] += byte(n % 10)
	}
	return b
}

// readInstant reads the form that AppendText writes, faster than time.Parse.
// It returns false for any other form, valid or not.
func readInstant(text []byte) (Instant, bool) {
	const form = "dddd-dd-ddTdd:dd:dd.dddZ"
	if len(text) != len(form) {
		return 0, false
	}
	for i, b := range text {
		if f := form[i]; f != b && (f != 'd' || !isDigit(b)) {
			return 0, false
		}
	}
	number := func(from, to int) (n int) {
		for _, b := range text[from:to] {
			n = 10*n + int(b-'0')
		}
		return n
	}
	month, day, hour, minute, second := time.Month(number(5, 7)), number(8, 10), number(11, 13), number(14, 16), number(17, 19)
	if hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	t := time.Date(number(0, 4), month, day, hour, minute, second, 0, time.UTC)
	if t.Month() != month || t.Day() != day {
		return 0, false // no such day: time.Date has moved it to the next month
	}
	return Instant(t.UnixMilli() + int64(number(20, 23))), true
}

// UnmarshalText reads an RFC 3339 time of any precision and zone. It rejects the
// decimal comma and the one-digit hour that time.Parse accepts, and what its offset
// moves out of the years 0 to 9999: an event with it could not be read again.
func (i *Instant) UnmarshalText(text []byte) error {
	if at, ok := readInstant(text); ok {
		*i = at
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return fmt.Errorf("instant: %w", err)
	}
	if text[len("2006-01-02T15")] != ':' || slices.Contains(text, ',') {
		return fmt.Errorf("instant: %q is not in RFC 3339 form", text)
	}
	at := InstantOf(t)
	if at.Time().Sub(t).Abs() >= time.Millisecond {
		return fmt.Errorf("instant: %q is not in the years 0000 to 9999 of UTC", text)
	}
	*i = at
	return nil
}
