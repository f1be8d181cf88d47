package domain

import (
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

// ParseID reads the canonical spelling of an ID and nothing else. Lower case,
// look-alike letters and overflowing values, which ulid.Parse would map onto
// other ids, are not ids.
func ParseID(s string) (ID, bool) {
	id, err := ulid.ParseStrict(s)
	if err != nil || id.String() != s {
		return ID{}, false
	}
	return id, true
}

// IDs issues ids whose time part never runs behind the last one issued, even
// when the clock is stepped back. Safe for concurrent use.
type IDs struct {
	now     func() time.Time
	entropy io.Reader

	mu   sync.Mutex
	last uint64
}

// NewIDs returns a source of ids. entropy fills the 80 random bits of each
// id; last is the newest id that is already in use, or the zero ID.
func NewIDs(now func() time.Time, entropy io.Reader, last ID) *IDs {
	return &IDs{now: now, entropy: entropy, last: last.Time()}
}

// Next issues an id. Its time part is the time of everything recorded under
// it: see IDTime.
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
	id, err := ulid.New(s.last, s.entropy)
	if err != nil {
		// Only a failing random source or the year 10889 leads here, and no
		// id may be issued then.
		panic(fmt.Sprintf("issuing an id: %v", err))
	}
	return id
}

// IDTime is the instant in an id's time part.
func IDTime(id ID) Instant { return Instant(id.Time()) }

// Instant is a moment in milliseconds since the Unix epoch. It is written in
// UTC as 2006-01-02T15:04:05.000Z.
type Instant int64

const instantLayout = "2006-01-02T15:04:05.000Z07:00"

// InstantOf cuts a time to milliseconds.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time is the instant as a time.Time in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add returns the instant d later, cut to milliseconds.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// String writes the instant in RFC 3339 form with milliseconds.
func (i Instant) String() string { return i.Time().Format(instantLayout) }

// MarshalText writes the instant as String does.
func (i Instant) MarshalText() ([]byte, error) {
	return i.Time().AppendFormat(make([]byte, 0, len(instantLayout)), instantLayout), nil
}

// UnmarshalText reads an RFC 3339 time of any precision and zone, but neither
// the decimal comma nor the one-digit hour that time.Parse lets pass.
func (i *Instant) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return fmt.Errorf("instant: %w", err)
	}
	if text[len("2006-01-02T15")] != ':' || slices.Contains(text, ',') {
		return fmt.Errorf("instant: %q is not in RFC 3339 form", text)
	}
	*i = InstantOf(t)
	return nil
}
