package boltfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	bbolt "go.etcd.io/bbolt"
)

// marked is a file of values that consist of marks, each value of its own. A key is never used again.
type marked struct {
	file   *File
	random *rand.Rand
	next   uint64
	live   map[uint64]bool
}

var (
	markedIn  = []byte("values")
	sizesFrom = []int{1, 1, 2, 5, 20, 60, 300, 700} // of values, in marks
	markBegin = []byte("<mark-")
)

func markOf(n uint64) []byte { return fmt.Appendf(nil, "<mark-%08d>", n) }

// markIn is the value whose mark b begins with.
func markIn(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b[len(markBegin):][:8]), 10, 64)
	return n
}

// openMarked opens a file, with the values that it has.
func openMarked(t testing.TB, path string, seed uint64) *marked {
	t.Helper()
	f, err := Open(path, Options{Create: true, AtOnce: math.MaxUint64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	f.DB().AllocSize = 64 << 10
	m := &marked{file: f, random: rand.New(rand.NewPCG(seed, 5)), live: make(map[uint64]bool)}
	err = f.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(markedIn)
		if err != nil {
			return err
		}
		return b.ForEach(func(k, _ []byte) error {
			m.live[keyIn(k)] = true
			m.next = max(m.next, keyIn(k))
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// keyOf mixes the order. The key has the mark too, since a deleted key is to go as its value does.
func keyOf(n uint64) []byte { return fmt.Appendf(nil, "%02d%s", n*7%61, markOf(n)) }

func keyIn(k []byte) uint64 { return markIn(k[2:]) }

// change puts some values and deletes about as many in one transaction.
func (m *marked) change(puts, deletes int) error {
	live := maps.Clone(m.live)
	err := m.file.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(markedIn)
		for range puts {
			m.next++
			live[m.next] = true
			if err := b.Put(keyOf(m.next), bytes.Repeat(markOf(m.next), sizesFrom[m.random.IntN(len(sizesFrom))])); err != nil {
				return err
			}
		}
		for n := range live {
			if deletes--; deletes < 0 {
				break
			}
			delete(live, n)
			if err := b.Delete(keyOf(n)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		m.live = live
	}
	return err
}

// readMarked reads every value; each consists of its key's mark.
func readMarked(f *File) error {
	return f.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(markedIn).ForEach(func(k, v []byte) error {
			mark := markOf(keyIn(k))
			if len(v) == 0 || len(v)%len(mark) != 0 || bytes.Count(v, mark) != len(v)/len(mark) {
				return damage("%q has other bytes: %.60q", k, v)
			}
			return nil
		})
	})
}

// left lists the values whose marks are in a file.
func left(t testing.TB, path string) map[uint64]bool {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[uint64]bool)
	for {
		at := bytes.Index(content, markBegin)
		if at < 0 || at+len(markOf(0)) > len(content) {
			return found
		}
		content = content[at:]
		found[markIn(content)] = true
		content = content[len(markBegin):]
	}
}

// only fails unless the file is sound and holds the marks of the values that it has, and no others.
func (m *marked) only(t testing.TB) {
	t.Helper()
	if err := errors.Join(m.file.Check(Check{}), bboltCheck(m.file), readMarked(m.file)); err != nil {
		t.Fatal(err)
	}
	found := left(t, m.file.path)
	for n := range m.live {
		if !found[n] {
			t.Errorf("the mark of value %d is lost", n)
		}
		delete(found, n)
	}
	if len(found) > 0 {
		t.Errorf("the marks of %d deleted values are left", len(found))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestScrubLeavesNoDeletedByte deletes values in every kind of page, and with them pages; the newest
// transaction's too are gone.
func TestScrubLeavesNoDeletedByte(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	m := openMarked(t, filepath.Join(t.TempDir(), "marked.db"), seed)
	m.file.DB().NoSync = true
	leftOnce := 0
	for n := range 60 {
		must(t, m.change(m.random.IntN(90), m.random.IntN(90)*(n/4%2)))
		if n%7 == 6 {
			leftOnce += len(left(t, m.file.path)) - len(m.live)
			must(t, m.file.Scrub(t.Context()))
			if m.only(t); t.Failed() {
				t.Fatalf("seed %d, transaction %d", seed, n)
			}
		}
	}
	must(t, m.change(0, len(m.live)))
	must(t, m.file.Scrub(t.Context()))
	m.only(t)
	if leftOnce < 100 {
		t.Errorf("seed %d: only %d values were left before: this shows nothing", seed, leftOnce)
	}
}

// TestScrubUnderLoad: readers see no wrong byte while pages are overwritten again and again, and a
// writer goes on.
func TestScrubUnderLoad(t *testing.T) {
	t.Parallel()
	m := openMarked(t, filepath.Join(t.TempDir(), "marked.db"), rand.Uint64())
	m.file.DB().NoSync = true
	must(t, m.change(100, 0))
	var all sync.WaitGroup
	var reads, scrubs atomic.Int64
	ended := make(chan struct{})
	repeat := func(do func() error, count *atomic.Int64) {
		all.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				if err := do(); err != nil {
					t.Error(err)
					return
				}
				count.Add(1)
			}
		})
	}
	for range 3 {
		repeat(func() error { return readMarked(m.file) }, &reads)
	}
	repeat(func() error { return m.file.Check(Check{}) }, &reads)
	repeat(func() error { return m.file.Scrub(t.Context()) }, &scrubs)
	for n := 0; (n < 60 || reads.Load() < 60 || scrubs.Load() < 6) && !t.Failed(); n++ {
		if err := m.change(20, min(20, len(m.live))); err != nil {
			t.Error(err)
		}
	}
	close(ended)
	all.Wait()
	must(t, m.file.Scrub(t.Context()))
	m.only(t)
}

// TestScrubAfterACrash finds what transactions wrote that never became part of the file: to free pages
// and behind the last page in use.
func TestScrubAfterACrash(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marked.db")
	m := openMarked(t, path, 1)
	must(t, m.change(200, 0))
	must(t, m.change(0, 100))
	state, err := ReadMeta(m.file.file)
	must(t, err)
	free, err := Pages{m.file.file, state}.Free()
	must(t, err)
	must(t, m.file.Close())
	raw, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	info, err := raw.Stat()
	must(t, err)
	lost := bytes.Repeat(markOf(99999999), 300)[:state.PageSize]
	for _, at := range []int64{int64(free[0]) * state.PageSize, state.Size(), info.Size() - state.PageSize, info.Size()} {
		_, err := raw.WriteAt(lost, at)
		must(t, err)
	}
	must(t, raw.Close())
	m = openMarked(t, path, 2)
	must(t, m.file.Scrub(t.Context()))
	m.only(t)
}

// TestScrubWaitsForReaders: a transaction that reads a state from before keeps the pages that it needs;
// meanwhile writers go on, and the end of the context ends the wait.
func TestScrubWaitsForReaders(t *testing.T) {
	t.Parallel()
	m := openMarked(t, filepath.Join(t.TempDir(), "marked.db"), 1)
	m.file.DB().NoSync = true
	must(t, m.change(100, 0))
	before := maps.Clone(m.live)
	reader, err := m.file.Begin()
	must(t, err)
	end := sync.OnceFunc(func() { m.file.End(reader) })
	t.Cleanup(end) // else closing the file would wait
	must(t, m.change(50, len(m.live)))
	ctx, cancel := context.WithTimeout(t.Context(), 4*scrubWait)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- m.file.Scrub(ctx) }()
	changed := 0
	for ; ctx.Err() == nil; changed++ {
		must(t, m.change(5, 5))
	}
	if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while a reader goes on: %v", err)
	}
	if changed < 3 {
		t.Errorf("writers made %d changes meanwhile", changed)
	}
	n := 0
	must(t, m.file.Guard(func() error {
		return reader.Bucket(markedIn).ForEach(func(k, v []byte) error {
			if n++; !before[keyIn(k)] || !bytes.HasPrefix(v, markOf(keyIn(k))) {
				t.Errorf("the reader sees %q: %.60q", k, v)
			}
			return nil
		})
	}))
	if n != len(before) {
		t.Errorf("the reader sees %d values of %d", n, len(before))
	}
	end()
	// A reader of the newest state delays nothing.
	reader, err = m.file.Begin()
	must(t, err)
	must(t, m.file.Scrub(t.Context()))
	m.file.End(reader)
	m.only(t)
}

// TestScrubWaitsForAWriter: Scrub ends with its context, also while a writer never ends its transaction,
// as a leader does that waits for the other nodes' answers.
func TestScrubWaitsForAWriter(t *testing.T) {
	t.Parallel()
	m := openMarked(t, filepath.Join(t.TempDir(), "marked.db"), 1)
	must(t, m.change(10, 0))
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- m.file.Update(func(*bbolt.Tx) error { close(begun); <-end; return nil })
	}()
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 4*scrubWait)
	defer cancel()
	if err := m.file.Scrub(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while a writer goes on: %v", err)
	}
	close(end)
	must(t, <-ended)
	must(t, m.change(1, 1))
	must(t, m.file.Scrub(t.Context()))
	m.only(t)
}

// TestScrubTornByAPowerCut: whichever of the overwritten pages reach the disk, the file is sound and
// holds every value.
func TestScrubTornByAPowerCut(t *testing.T) {
	t.Parallel()
	dir, seed := t.TempDir(), rand.Uint64()
	m := openMarked(t, filepath.Join(dir, "marked.db"), seed)
	m.file.DB().NoSync = true
	for range 20 {
		must(t, m.change(m.random.IntN(60), m.random.IntN(40)))
	}
	before, err := os.ReadFile(m.file.path)
	must(t, err)
	must(t, m.file.Scrub(t.Context()))
	after, err := os.ReadFile(m.file.path)
	must(t, err)
	size := int(m.file.second)
	if len(before) != len(after) || bytes.Equal(before, after) {
		t.Fatalf("seed %d: %d bytes before, %d after", seed, len(before), len(after))
	}
	for n := range 10 {
		torn := bytes.Clone(before)
		for at := 0; at < len(torn); at += size {
			if m.random.IntN(2) == 0 {
				copy(torn[at:at+size], after[at:])
			}
		}
		path := filepath.Join(dir, fmt.Sprint(n))
		must(t, os.WriteFile(path, torn, 0o600))
		again := openMarked(t, path, seed)
		if !maps.Equal(again.live, m.live) {
			t.Errorf("seed %d: %d values of %d are left", seed, len(again.live), len(m.live))
		}
		must(t, again.file.Scrub(t.Context()))
		again.only(t)
	}
}

const scrubChild = "PAYLEDGER_TEST_SCRUB_PATH" // of TestScrubChild's file

// TestScrubChild is the process that TestScrubKilled kills.
func TestScrubChild(t *testing.T) {
	path := os.Getenv(scrubChild)
	if path == "" {
		t.Skip("run by another test, as a process of its own")
	}
	m := openMarked(t, path, rand.Uint64())
	go func() {
		for {
			if err := m.file.Scrub(context.Background()); err != nil {
				panic(err)
			}
		}
	}()
	for n := 0; ; n++ {
		must(t, m.change(m.random.IntN(40), m.random.IntN(40)))
		if n == 3 {
			fmt.Println("goes on")
		}
	}
}

// TestScrubKilled kills a process that writes and overwrites: the file is sound, and the next process
// leaves no deleted byte in it.
func TestScrubKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marked.db")
	for range 5 {
		child := exec.Command(os.Args[0], "-test.run=^TestScrubChild$")
		child.Env = append(os.Environ(), scrubChild+"="+path, "GOCOVERDIR="+t.TempDir())
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Errorf("the process ended: %v", err)
		}
		<-time.After(time.Duration(rand.IntN(30)) * time.Millisecond)
		must(t, child.Process.Kill())
		_ = child.Wait()
		m := openMarked(t, path, 1)
		must(t, m.file.Scrub(t.Context()))
		m.only(t)
		must(t, m.file.Close())
	}
}

// TestScrubRefuses files that it must not write to.
func TestScrubRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "marked.db")
	m := openMarked(t, path, 1)
	must(t, m.change(10, 0))
	// The next commit fails when it writes its state, which may be on the disk or not.
	write := reflect.ValueOf(m.file.db).Elem().FieldByName("ops").FieldByName("writeAt")
	writeAt := (*func([]byte, int64) (int, error))(unsafe.Pointer(write.UnsafeAddr()))
	works, failed := *writeAt, errors.New("injected")
	*writeAt = func(b []byte, at int64) (int, error) {
		if at < 2*m.file.second {
			return 0, failed
		}
		return works(b, at)
	}
	if err := m.change(10, 0); !errors.Is(err, failed) {
		t.Fatalf("%v", err)
	}
	if err := m.file.Scrub(t.Context()); !errors.Is(err, errUnsynced) {
		t.Errorf("after a commit that failed: %v", err)
	}
	*writeAt = works
	must(t, m.change(1, 1))
	must(t, m.file.Scrub(t.Context()))
	m.only(t)
	must(t, m.file.Close())
	if err := m.file.Scrub(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
	f, err := Open(path, Options{ReadOnly: true})
	must(t, err)
	if err := f.Scrub(t.Context()); err == nil {
		t.Error("a file opened for reading was overwritten")
	}
	must(t, f.Close())
	m = openMarked(t, path, 1)
	must(t, os.Truncate(path, 3*m.file.second))
	if err := m.file.Scrub(t.Context()); !Damaged(err) {
		t.Errorf("a file that was cut off: %v", err)
	}
}

// BenchmarkReaders is what it costs to begin and end a read.
func BenchmarkReaders(b *testing.B) {
	m := openMarked(b, filepath.Join(b.TempDir(), "marked.db"), 1)
	must(b, m.change(10, 0))
	key := binary.BigEndian.AppendUint64(nil, 1)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			must(b, m.file.View(func(tx *bbolt.Tx) error { tx.Bucket(markedIn).Get(key); return nil }))
		}
	})
}
