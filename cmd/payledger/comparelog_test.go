package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
)

// logOf makes a directory whose log has so many events, all of them signed
// for.
func logOf(t *testing.T, events eventstore.Position) dataDir {
	t.Helper()
	d := fresh(t)
	goOn(t, d, events)
	return d
}

// goOn adds events until there are so many.
func goOn(t *testing.T, d dataDir, events eventstore.Position) {
	t.Helper()
	c := opensCore(t, d, io.Discard)
	for last := eventstore.Position(0); last < events; {
		c.register(t)
		var err error
		if last, err = c.store.Last(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
}

// tamper writes the log anew with other events, as somebody would who knows
// its format: every checksum, position and head is right.
func tamper(t *testing.T, d dataDir, change func(all []eventstore.Stored) []eventstore.Stored) {
	t.Helper()
	store, err := bolt.OpenReadOnly(d.ledger())
	if err != nil {
		t.Fatal(err)
	}
	var all []eventstore.Stored
	for r, err := range store.Scan(t.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		r.Body = bytes.Clone(r.Body)
		all = append(all, r)
	}
	log := store.LogID()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	removeAll(t, d.ledger(), d.claims())
	all = change(all)
	_, err = bolt.Build(t.Context(), d.ledger(), log, func(yield func(eventstore.Stored, error) bool) {
		for i, r := range all {
			r.Position = eventstore.Position(i + 1)
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func altered(at int) func([]eventstore.Stored) []eventstore.Stored {
	return func(all []eventstore.Stored) []eventstore.Stored {
		was := all[at-1].Body
		all[at-1].Body = bytes.Replace(was, []byte("Shop"), []byte("Stop"), 1)
		if bytes.Equal(all[at-1].Body, was) {
			panic("nothing to alter")
		}
		return all
	}
}

// TestTamperedLogIsNotServed: with checksums that are right and projections
// that have not seen it, what was altered or swapped shows at once or soon,
// and nothing is signed meanwhile.
func TestTamperedLogIsNotServed(t *testing.T) {
	t.Parallel()
	const events = 400
	for name, change := range map[string]func([]eventstore.Stored) []eventstore.Stored{
		"the last event altered": altered(events),
		"an event altered":       altered(150),
		"events swapped": func(all []eventstore.Stored) []eventstore.Stored {
			all[100], all[101] = all[101], all[100]
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := logOf(t, events)
			newest, err := os.ReadFile(d.checkpoint())
			if err != nil {
				t.Fatal(err)
			}
			tamper(t, d, change)
			said, code := serveUntilEnd(t, d)
			if code != exitDirectory || !strings.Contains(said, "the log was altered: its first 400 events") {
				t.Errorf("exit code %d\n%s", code, said)
			}
			if after, err := os.ReadFile(d.checkpoint()); err != nil || !bytes.Equal(after, newest) {
				t.Errorf("signed after that: %s, %v", after, err)
			}
		})
	}
}

// serveUntilEnd serves a directory whose server is to end by itself.
func serveUntilEnd(t *testing.T, d dataDir) (said string, code int) {
	t.Helper()
	s, err := startServer("serve", "--data", string(d), "--sandbox")
	if err != nil {
		return err.Error(), s.cmd.ProcessState.ExitCode()
	}
	defer s.kill()
	select {
	case <-s.exited:
	case <-time.After(patience):
		t.Error("the server still runs")
		s.kill()
	}
	return s.stderr.String(), s.cmd.ProcessState.ExitCode()
}

// TestComparingFindsWhatAGlanceMisses goes past the glance: comparing the
// whole log ends the process, and what the projections alone have otherwise
// makes them be built anew.
func TestComparingFindsWhatAGlanceMisses(t *testing.T) {
	t.Parallel()
	d := logOf(t, 20)
	c := opensCore(t, d, io.Discard)
	defer func() { _ = c.close() }()
	again, err := openCheckpoints(t.Context(), d, c.views, c.signed.checkpointOptions)
	if err != nil {
		t.Fatal(err)
	}
	again.newest.Root[0]++
	again.begin()
	defer again.finish()
	if err := <-again.failed; !errors.As(err, new(*translog.MismatchError)) {
		t.Errorf("%v", err)
	}
	c.register(t)
	if signed, err := again.checkpoint(t.Context()); err == nil {
		t.Errorf("signed %s", signed)
	}
}

// TestAlteredBehindTheCheckpoint alters what is signed for by nothing yet and
// was folded before: the projections are made anew from the log.
func TestAlteredBehindTheCheckpoint(t *testing.T) {
	t.Parallel()
	d := logOf(t, 10)
	older, err := os.ReadFile(d.checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	goOn(t, d, 20)
	if err := os.WriteFile(d.checkpoint(), older, 0o600); err != nil {
		t.Fatal(err)
	}
	tamper(t, d, altered(16))
	if said, code := serveUntilEnd(t, d); code != exitFailed || !strings.Contains(said, "start again to rebuild it") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	s := start(t, "serve", "--data", string(d), "--sandbox")
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.stderr)
	}
	if out, code := payledger(t, "verify", string(d)); code != 0 || !strings.Contains(out, "20 events: ok") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestDamagedTreeIsMadeAnew: hashes that the projections have wrong are no
// reason to refuse the log.
func TestDamagedTreeIsMadeAnew(t *testing.T) {
	t.Parallel()
	d := logOf(t, 16)
	db, err := bbolt.Open(d.projections(), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("translog"))
		k, v := b.Cursor().Last()
		hashes := bytes.Clone(v[:len(v)-4]) // behind them is the checksum
		hashes[len(hashes)-1]++             // of the last, the root
		table := crc32.MakeTable(crc32.Castagnoli)
		sum := crc32.Update(crc32.Update(crc32.Checksum([]byte("translog"), table), table, k), table, hashes)
		return b.Put(k, binary.BigEndian.AppendUint32(hashes, sum))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	var log syncBuffer
	c := opensCore(t, d, &log)
	if err := c.signed.whole(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.close(); err != nil || !strings.Contains(log.String(), "the projections are made anew") {
		t.Errorf("%v\n%s", err, log.String())
	}
}

// TestUnreadableEventStopsTheSigning: what does not need the event goes on.
func TestUnreadableEventStopsTheSigning(t *testing.T) {
	t.Parallel()
	d := logOf(t, 400)
	newest, err := os.ReadFile(d.checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := os.ReadFile(d.ledger())
	if err != nil {
		t.Fatal(err)
	}
	store, err := bolt.OpenReadOnly(d.ledger())
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range store.Scan(t.Context(), 99, eventstore.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range recordsOf(ledger, r.Commit) {
			ledger[at+recordID+20] ^= 4
		}
		break
	}
	if err := errors.Join(store.Close(), os.WriteFile(d.ledger(), ledger, 0o600)); err != nil {
		t.Fatal(err)
	}
	var log syncBuffer
	c := opensCore(t, d, &log)
	if err := c.signed.whole(t.Context()); !errors.As(err, new(*eventstore.CorruptError)) {
		t.Errorf("%v", err)
	}
	if signed, err := c.signed.promptly(t.Context()); err != nil || !bytes.Equal(signed, newest) {
		t.Errorf("what was signed before: %s, %v", signed, err)
	}
	c.register(t)
	if signed, err := c.signed.promptly(t.Context()); err == nil {
		t.Errorf("signed %s", signed)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(d.checkpoint()); err != nil || !bytes.Equal(after, newest) {
		t.Errorf("%s, %v", after, err)
	}
	if !strings.Contains(log.String(), "so nothing new is signed") || !strings.Contains(log.String(), "position 100") {
		t.Error(log.String())
	}
}

// TestNothingIsSignedBeforeComparing: what was signed is there all the time.
func TestNothingIsSignedBeforeComparing(t *testing.T) {
	t.Parallel()
	d := logOf(t, 10)
	c := opensCore(t, d, io.Discard)
	defer func() { _ = c.close() }()
	waiting, err := openCheckpoints(t.Context(), d, c.views, c.signed.checkpointOptions)
	if err != nil {
		t.Fatal(err)
	}
	if signed, err := waiting.promptly(t.Context()); err != nil || !bytes.Equal(signed, waiting.signed) {
		t.Errorf("%s, %v", signed, err)
	}
	c.register(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if signed, err := waiting.checkpoint(ended); err == nil {
		t.Errorf("signed %s", signed)
	}
	if signed, err := waiting.promptly(t.Context()); err == nil || !strings.Contains(err.Error(), "still being compared") {
		t.Errorf("%s, %v", signed, err)
	}
	waiting.begin()
	if signed, err := waiting.checkpoint(t.Context()); err != nil || bytes.Equal(signed, c.signed.signed) {
		t.Errorf("%s, %v", signed, err)
	}
	waiting.finish()
}

// TestMissingCheckpointIsNoted cuts the log's end off and deletes the
// checkpoint: the next start says so, and verify does from then on.
func TestMissingCheckpointIsNoted(t *testing.T) {
	t.Parallel()
	d := logOf(t, 20)
	tamper(t, d, func(all []eventstore.Stored) []eventstore.Stored { return slices.Clip(all[:12]) })
	removeAll(t, d.checkpoint())
	s := start(t, "serve", "--data", string(d), "--sandbox", "--admin-listen", "127.0.0.1:0")
	if said := s.stderr.String(); !strings.Contains(said, `"level":"error"`) || !strings.Contains(said, "is missing beside a log of 12 events") {
		t.Error(said)
	}
	if m := string(s.scrape(t)); !strings.Contains(m, "\npayledger_log_checkpoint_missing 1\n") {
		t.Error("no metric says so")
	}
	eventually(t, "the log is compared", func() bool { return strings.Contains(string(s.scrape(t)), "\npayledger_log_compared 1\n") })
	eventually(t, "a checkpoint is signed", func() bool { _, err := os.Stat(d.checkpoint()); return err == nil })
	noted := func(when string) {
		t.Helper()
		out, code := payledger(t, "verify", string(d))
		if code != 0 || !strings.Contains(out, "completeness  not checked: no position is missing now, but the log was opened without its checkpoint 1 times") ||
			!strings.Contains(out, "with 12 events") {
			t.Errorf("%s: exit code %d\n%s", when, code, out)
		}
	}
	noted("while it runs")
	if code := s.stop(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, s.stderr)
	}
	s = start(t, "serve", "--data", string(d), "--sandbox")
	if said := s.stderr.String(); strings.Contains(said, "is missing") {
		t.Errorf("said again:\n%s", said)
	}
	if code := s.stop(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, s.stderr)
	}
	noted("afterwards")

	removeAll(t, d.checkpoint())
	if out, code := payledger(t, "project", "list", "--data", string(d)); code != 0 || !strings.Contains(out, "is missing beside a log of 12 events") {
		t.Errorf("a command: exit code %d\n%s", code, out)
	}
}
