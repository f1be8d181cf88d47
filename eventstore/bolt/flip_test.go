package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"payledger/eventstore"
)

// TestFlippedBitsAnywhere flips single bits of a log's file, half of them in the
// structure that bbolt follows. Either Verify finds the damage, or it does no harm:
// every read still finds every record, also after the log was written to.
//
// PAYLEDGER_FLIPS is the number of bits, PAYLEDGER_SEED selects them.
func TestFlippedBitsAnywhere(t *testing.T) {
	inOneGoroutine(t)
	t.Parallel()
	flips, seed := fromEnv(t, "PAYLEDGER_FLIPS", uint64(rounds(60, 300))), fromEnv(t, "PAYLEDGER_SEED", rand.Uint64())
	path := grown(t, 600)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used, size := usedBytes(t, path), int64(os.Getpagesize())
	random := rand.New(rand.NewPCG(seed, 1))
	found := 0
	for n := range flips {
		at := random.Int64N(used)
		if n%2 == 0 {
			page := at / size * size
			elements := int64(binary.NativeEndian.Uint16(whole[page+10:]))
			if structured := min(16+16*elements, size); structured > 0 {
				at = page + random.Int64N(structured)
			}
		}
		bit := byte(1) << random.IntN(8)
		damaged := bytes.Clone(whole)
		damaged[at] ^= bit
		what := fmt.Sprintf("seed %d, flip %d: bit %#x of byte %d of page %d", seed, n, bit, at%size, at/size)
		if wrong := harm(t, damaged, 600); errors.Is(wrong, errFound) {
			found++
		} else if wrong != nil {
			t.Errorf("%s: not found, and %v", what, wrong)
		}
	}
	t.Logf("seed %d: %d of %d flips were found, the others did no harm", seed, found, flips)
	if found == 0 {
		t.Error("none was found")
	}
}

// rounds is how often a campaign repeats each kind of fault.
func rounds(short, inLong int) int {
	if os.Getenv("PAYLEDGER_LONG") != "" {
		return inLong
	}
	return short
}

// inOneGoroutine skips a long campaign in which the race detector, which runs the short
// tests, has nothing to see.
func inOneGoroutine(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a long campaign in one goroutine")
	}
}

func fromEnv(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

var errFound = errors.New("it was found")

// grown makes a log with pages of all kinds, in use, free and shared by several
// streams: streams of several records, written in mixed order, some of them long, in
// many transactions.
func grown(t *testing.T, records int) (path string) {
	t.Helper()
	path = newLog(t)
	s := reopened(t, path)
	for i := 0; i < records; i += 20 {
		if err := grow(t, s, i, i+20); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// grow appends commits of grown, fewer than 200, in one transaction.
func grow(t *testing.T, s *Store, from, to int) error {
	t.Helper()
	var commits []eventstore.Commit
	for i := from; i < to; i++ {
		commits = append(commits, grownCommit(t, s, i))
	}
	for _, a := range s.Append(t.Context(), commits...) {
		if a.Err != nil {
			return a.Err
		}
	}
	return nil
}

func grownCommit(t *testing.T, s *Store, i int) eventstore.Commit {
	t.Helper()
	c := commitOf(i*7919%200, 0)
	c.ID[6], c.ID[7], c.ID[8] = byte(i>>8), byte(i), 1
	c.Claim.Key[5], c.Claim.Key[6] = byte(i>>8), byte(i)
	if i%41 == 0 {
		random := rand.New(rand.NewPCG(uint64(i), 3))
		long := make([]byte, 9000)
		for j := range long {
			long[j] = byte(random.Uint32())
		}
		c.Record.Body = append(c.Record.Body, long...)
	}
	for r, err := range s.Load(t.Context(), c.Record.Stream) {
		if err != nil {
			t.Fatal(err)
		}
		c.Record.Expect = r.Position
	}
	return c
}

// harm is errFound when Verify finds what is wrong with a log, nil when the damage
// has no effect, and otherwise the effect.
func harm(t *testing.T, log []byte, records int) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, log, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(path))
	const more = 12
	ctx := context.Background()
	s, err := OpenReadOnly(path)
	if err != nil {
		return errFound
	}
	err = s.Verify(ctx)
	if closeErr := s.Close(); err == nil && closeErr != nil {
		return closeErr
	}
	if err != nil {
		return errFound
	}
	if s, err = openDefault(path); err != nil {
		return fmt.Errorf("it cannot be opened: %w", err)
	}
	defer func() { _ = s.Close() }()
	if err := readable(ctx, s, records); err != nil {
		return err
	}
	for i := 0; i < more; i += 4 {
		if err := grow(t, s, records+i, records+i+4); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	if err := readable(ctx, s, records+more); err != nil {
		return fmt.Errorf("after writing: %w", err)
	}
	if err := s.Close(); err != nil {
		return err
	}
	if s, err = OpenReadOnly(path); err != nil {
		return fmt.Errorf("after writing: %w", err)
	}
	if err := errors.Join(s.Verify(ctx), readable(ctx, s, records+more)); err != nil {
		return fmt.Errorf("after writing: %w", err)
	}
	return s.Close()
}

// readable fails unless every record is found by position and by stream.
func readable(ctx context.Context, s *Store, records int) error {
	streams := make(map[eventstore.Stream]int)
	n := 0
	for r, err := range s.Scan(ctx, 0, eventstore.Filter{}) {
		if err != nil {
			return err
		}
		n++
		streams[r.Stream]++
	}
	if n != records {
		return fmt.Errorf("%d of %d records are there", n, records)
	}
	for st, want := range streams {
		n := 0
		for _, err := range s.Load(ctx, st) {
			if err != nil {
				return err
			}
			n++
		}
		if n != want {
			return fmt.Errorf("%d of %d records of a stream are there", n, want)
		}
	}
	return nil
}
