package domain_test

import (
	"crypto/rand"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"payledger/domain"
)

const canonicalID = "01M7W78FJBM8T4R7B5N0C1D2E3"

// idSpellings maps texts to whether they are ids. It also seeds the fuzz target.
func idSpellings() map[string]bool {
	return map[string]bool{
		canonicalID:                  true,
		"00000000000000000000000000": true,
		"7ZZZZZZZZZZZZZZZZZZZZZZZZZ": true, // the greatest

		"8ZZZZZZZZZZZZZZZZZZZZZZZZZ":              false, // more than 128 bits
		"ZZZZZZZZZZZZZZZZZZZZZZZZZZ":              false,
		strings.ToLower(canonicalID):              false,
		"01m7W78FJBM8T4R7B5N0C1D2E3":              false,
		"O1M7W78FJBM8T4R7B5N0C1D2E3":              false, // letter O for zero
		"0IM7W78FJBM8T4R7B5N0C1D2E3":              false, // I and L for one
		"0LM7W78FJBM8T4R7B5N0C1D2E3":              false,
		"01M7W78FJBM8T4R7B5N0C1D2EU":              false, // U is no digit
		canonicalID[:25]:                          false,
		canonicalID + "0":                         false,
		" " + canonicalID[:25]:                    false,
		canonicalID[:25] + "\n":                   false,
		canonicalID[:13] + "-" + canonicalID[14:]: false,
		strings.Repeat("é", 13):                   false,
		strings.Repeat("\x00", 26):                false,
		"":                                        false,
	}
}

func TestParseID(t *testing.T) {
	t.Parallel()
	for text, want := range idSpellings() {
		id, ok := domain.ParseID(text)
		switch {
		case ok != want:
			t.Errorf("ParseID(%q) = %v, %t", text, id, ok)
		case ok && id.String() != text, !ok && id != domain.ID{}:
			t.Errorf("ParseID(%q) answers %v", text, id)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for text := range idSpellings() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := domain.ParseID(text)
		if ok && id.String() != text {
			t.Fatalf("%q was taken for the id %s", text, id)
		}
		if !ok && id != (domain.ID{}) {
			t.Fatalf("%q is no id, yet %s was answered", text, id)
		}
		if !ok && len(text) == 26 && strings.Trim(text, "0123456789ABCDEFGHJKMNPQRSTVWXYZ") == "" && text[0] < '8' {
			t.Fatalf("%q is an id and was refused", text)
		}
	})
}

func TestEveryIDIsReadAsItself(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var id domain.ID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		if got, ok := domain.ParseID(id.String()); !ok || got != id {
			t.Fatalf("%s is read as %s, %t", id, got, ok)
		}
	})
}

// TestIDsNeverRunBehind moves the clock at random, also backward.
func TestIDsNeverRunBehind(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var clock domain.Instant
		var last domain.ID
		instants := rapid.Int64Range(0, 1<<44)
		_ = last.SetTime(uint64(instants.Draw(t, "newest id in use")))
		ids := domain.NewIDs(func() time.Time { return clock.Time() }, rand.Reader, last)
		least := domain.IDTime(last)
		issued := map[domain.ID]bool{}
		check := func(id domain.ID) {
			if issued[id] {
				t.Fatalf("%s was issued twice", id)
			}
			issued[id] = true
			if domain.IDTime(id) != least {
				t.Fatalf("at %s, after %s, the id's time is %s", clock, least, domain.IDTime(id))
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "ids") {
			clock = domain.Instant(instants.Draw(t, "clock"))
			least = max(least, clock)
			if rapid.Bool().Draw(t, "pair") {
				object, event := ids.Pair()
				check(object)
				check(event)
			} else {
				check(ids.Next())
			}
		}
	})
}

func TestIDsAreUniqueAndOrderedUnderConcurrency(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 200
	var mu sync.Mutex
	tick := domain.Instant(1_000_000)
	ids := domain.NewIDs(func() time.Time {
		// NewIDs calls the clock under its own lock; a second one makes the
		// test independent of that.
		mu.Lock()
		defer mu.Unlock()
		tick--
		return tick.Time()
	}, rand.Reader, domain.ID{})
	issued := make([][]domain.ID, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for range each {
				object, event := ids.Pair()
				issued[w] = append(issued[w], object, event, ids.Next())
			}
		})
	}
	wg.Wait()
	seen := map[domain.ID]bool{}
	for _, all := range issued {
		for i, id := range all {
			if seen[id] {
				t.Fatalf("%s was issued twice", id)
			}
			seen[id] = true
			if i > 0 && domain.IDTime(id) < domain.IDTime(all[i-1]) {
				t.Fatalf("%s was issued after %s", id, all[i-1])
			}
		}
	}
	if len(seen) != 3*workers*each {
		t.Errorf("%d ids, want %d", len(seen), 3*workers*each)
	}
}

func TestIDsTakeTheirRandomPartFromTheSource(t *testing.T) {
	t.Parallel()
	at := domain.Instant(1795169730123)
	ids := domain.NewIDs(func() time.Time { return at.Time() }, strings.NewReader("ABCDEFGHIJabcdefghij0123456789"), domain.ID{})
	object, event := ids.Pair()
	if got := string(object[6:]) + string(event[6:]); got != "ABCDEFGHIJabcdefghij" {
		t.Errorf("random parts %q", got)
	}
	if domain.IDTime(object) != at || domain.IDTime(event) != at || domain.IDTime(ids.Next()) != at {
		t.Errorf("%s and %s are not of %s", object, event, at)
	}
}

func TestNoIDWithoutRandomness(t *testing.T) {
	t.Parallel()
	ids := domain.NewIDs(time.Now, io.LimitReader(rand.Reader, 15), domain.ID{})
	ids.Next()
	defer func() {
		if recover() == nil {
			t.Error("an id was issued although the random source ran dry")
		}
	}()
	ids.Next()
}

// What other nodes issued is observed: ids never run back.
func TestObserve(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_795_169_730_123)
	ids := domain.NewIDs(func() time.Time { return at }, rand.Reader, domain.ID{})
	var other domain.ID
	if err := other.SetTime(uint64(at.UnixMilli()) + 300); err != nil {
		t.Fatal(err)
	}
	first := ids.Next()
	ids.Observe(other)
	if got := ids.Next(); got.Time() != other.Time() {
		t.Errorf("after an id of %d comes one of %d", other.Time(), got.Time())
	}
	ids.Observe(first)
	if got := ids.Next(); got.Time() != other.Time() {
		t.Errorf("an older id moves the time back to %d", got.Time())
	}
}
