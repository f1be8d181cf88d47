package checkpoints

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
	"payledger/notifier/health/healthtest"
)

// TestComparingFindsWhatAGlanceMisses goes past the glance: comparing the
// whole log ends the process, and what the projections alone have otherwise
// makes them be built anew.
func TestComparingFindsWhatAGlanceMisses(t *testing.T) {
	t.Parallel()
	d := grown(t, newDirectory(t), 20)
	c := open(t, d, io.Discard)
	defer func() { _ = c.close() }()
	again, err := newSigner(t.Context(), d, c.views, c.signed.codec, c.signed.Options)
	if err != nil {
		t.Fatal(err)
	}
	again.newest.Root[0]++
	if err := again.Compare(t.Context()); !errors.As(err, new(*translog.MismatchError)) {
		t.Errorf("%v", err)
	}
	c.register(t)
	if signed, err := again.Checkpoint(t.Context()); err == nil {
		t.Errorf("signed %s", signed)
	}
}

// TestDamagedTreeIsMadeAnew: hashes that the projections have wrong are no
// reason to refuse the log.
func TestDamagedTreeIsMadeAnew(t *testing.T) {
	t.Parallel()
	d := grown(t, newDirectory(t), 16)
	db, err := bbolt.Open(d.Projections(), 0o600, nil)
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
	var log healthtest.Buffer
	c := open(t, d, &log)
	if err := c.signed.Whole(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.close(); err != nil || !strings.Contains(log.String(), "the projections are rebuilt") {
		t.Errorf("%v\n%s", err, log.String())
	}
}

// TestUnreadableEventStopsTheSigning: what does not need the event goes on.
func TestUnreadableEventStopsTheSigning(t *testing.T) {
	t.Parallel()
	d := grown(t, newDirectory(t), 400)
	newest, err := os.ReadFile(d.Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := os.ReadFile(d.Ledger())
	if err != nil {
		t.Fatal(err)
	}
	store, err := bolt.OpenReadOnly(d.Ledger())
	if err != nil {
		t.Fatal(err)
	}
	_, err = bolt.FindRecords(t.Context(), bytes.NewReader(bytes.Clone(ledger)), int64(len(ledger)), func(int64) {}, func(c bolt.FoundRecord) error {
		if c.Position == 100 {
			ledger[c.Offset+int64(c.Size)/2] ^= 4
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.Close(), os.WriteFile(d.Ledger(), ledger, 0o600)); err != nil {
		t.Fatal(err)
	}
	var log healthtest.Buffer
	c := open(t, d, &log)
	if err := c.signed.Whole(t.Context()); !errors.As(err, new(*eventstore.CorruptError)) {
		t.Errorf("%v", err)
	}
	if signed, err := c.signed.Promptly(t.Context()); err != nil || !bytes.Equal(signed, newest) {
		t.Errorf("what was signed before: %s, %v", signed, err)
	}
	c.register(t)
	if signed, err := c.signed.Promptly(t.Context()); err == nil {
		t.Errorf("signed %s", signed)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(d.Checkpoint()); err != nil || !bytes.Equal(after, newest) {
		t.Errorf("%s, %v", after, err)
	}
	if !strings.Contains(log.String(), "so nothing new is signed") || !strings.Contains(log.String(), "position 100") {
		t.Error(log.String())
	}
}

// TestNothingIsSignedBeforeComparing: what was signed is there all the time.
func TestNothingIsSignedBeforeComparing(t *testing.T) {
	t.Parallel()
	d := grown(t, newDirectory(t), 10)
	c := open(t, d, io.Discard)
	defer func() { _ = c.close() }()
	waiting, err := newSigner(t.Context(), d, c.views, c.signed.codec, c.signed.Options)
	if err != nil {
		t.Fatal(err)
	}
	if signed, err := waiting.Promptly(t.Context()); err != nil || !bytes.Equal(signed, waiting.signed) {
		t.Errorf("%s, %v", signed, err)
	}
	c.register(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if signed, err := waiting.Checkpoint(ended); err == nil {
		t.Errorf("signed %s", signed)
	}
	if signed, err := waiting.Promptly(t.Context()); err == nil || !strings.Contains(err.Error(), "still being compared") {
		t.Errorf("%s, %v", signed, err)
	}
	var comparing sync.WaitGroup
	defer comparing.Wait()
	comparing.Go(func() { _ = waiting.Compare(t.Context()) })
	if signed, err := waiting.Checkpoint(t.Context()); err != nil || bytes.Equal(signed, c.signed.signed) {
		t.Errorf("%s, %v", signed, err)
	}
	waiting.Finish()
}
