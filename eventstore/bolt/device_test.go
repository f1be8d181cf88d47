package bolt

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"unsafe"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/storetest"
)

// device stands between bbolt and the file and makes single system calls of a commit
// fail. bbolt writes through db.ops.writeAt, which is not exported and is replaced
// by reflection: a write can be lost, torn or kept and still be reported as failed.
// bbolt syncs and grows the file through its descriptor. To make those calls fail,
// /dev/null is opened under the descriptor's number, where sync and truncate return
// EINVAL; the writes go to the real file through a duplicate.
type device struct {
	t    testing.TB
	s    *Store
	keep *os.File // a duplicate of the store's descriptor, sharing its lock

	metaLock *sync.Mutex // bbolt's

	mu    sync.Mutex
	stall *stall
	fault *fault
	pages int // written since the fault was armed
}

type stall struct{ held, released chan struct{} }

// fault makes one step of a commit fail.
type fault struct {
	step step
	page int    // stepPage: which one, from 1
	keep amount // how much of the write reaches the file
}

type step int

const (
	stepGrow     step = iota // growing the file, or else the first sync
	stepPage                 // writing a page
	stepSync                 // syncing the pages
	stepMeta                 // writing the page that makes them count
	stepMetaSync             // syncing that
)

type amount int

const (
	none amount = iota
	half
	all
)

var errInjected = errors.New("injected")

func attach(t testing.TB, s *Store) *device {
	t.Helper()
	fd, err := unix.FcntlInt(s.file.Descriptor().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := &device{t: t, s: s, keep: os.NewFile(uintptr(fd), "duplicate of the log")}
	db := reflect.ValueOf(s.file.DB()).Elem()
	d.metaLock = field[sync.Mutex](t, db.FieldByName("metalock"))
	*field[func([]byte, int64) (int, error)](t, db.FieldByName("ops").FieldByName("writeAt")) = d.writeAt
	return d
}

func field[T any](t testing.TB, f reflect.Value) *T {
	t.Helper()
	if !f.IsValid() || f.Type() != reflect.TypeFor[T]() {
		t.Fatal("bbolt has no db.metalock or db.ops.writeAt any more: find another place for these faults")
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr()))
}

// close releases the store's lock through the duplicate: when the store's own
// descriptor was broken, only the duplicate still holds it.
func (d *device) close() {
	_ = errors.Join(unix.Flock(int(d.keep.Fd()), unix.LOCK_UN), d.keep.Close())
}

func (d *device) arm(f fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault, d.pages = &f, 0
	if f.step == stepGrow {
		d.breakDescriptor()
	}
}

func (d *device) breakDescriptor() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		d.t.Error(err)
		return
	}
	defer func() { _ = null.Close() }()
	if err := unix.Dup3(int(null.Fd()), int(d.s.file.Descriptor().Fd()), unix.O_CLOEXEC); err != nil {
		d.t.Error(err)
	}
}

func (d *device) writeAt(b []byte, at int64) (int, error) {
	meta := at < 2*int64(d.s.file.DB().Info().PageSize)
	d.mu.Lock()
	f, st := d.fault, d.stall
	if !meta {
		d.pages++
	}
	page := d.pages
	if meta {
		d.stall = nil
	}
	d.mu.Unlock()

	switch {
	case f == nil:
	case f.step == stepPage && !meta && page == f.page, f.step == stepMeta && meta:
		d.write(b, at, f.keep)
		return 0, errInjected
	case f.step == stepSync && !meta && page == 1:
		d.breakDescriptor()
	case f.step == stepMetaSync && meta:
		d.breakDescriptor()
		d.write(b, at, f.keep)
		return len(b), nil
	}
	n, err := d.keep.WriteAt(b, at)
	if meta && st != nil {
		// bbolt holds this lock for the write, but not for the sync after it.
		// Without the lock, readers see the transaction, as they do during a sync.
		d.metaLock.Unlock()
		close(st.held)
		<-st.released
		d.metaLock.Lock()
	}
	return n, err
}

func (d *device) write(b []byte, at int64, part amount) {
	n := map[amount]int{none: 0, half: len(b) / 2, all: len(b)}[part]
	if _, err := d.keep.WriteAt(b[:n], at); err != nil {
		d.t.Error(err)
	}
}

// underTest is a log in a file for the conformance suite.
type underTest struct {
	t      testing.TB
	path   string
	store  *Store
	device *device

	publish func(Batch) error               // Options.Publish
	places  map[eventstore.Position][]int64 // of records in the file
	sizes   map[eventstore.Position]int
}

var logID = domain.ID{1, 160, 112, 116, 98, 90, 15: 9}

func newLog(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := Init(path, logID); err != nil {
		t.Fatal(err)
	}
	return path
}

func create(t testing.TB) storetest.Log {
	return &underTest{
		t: t, path: newLog(t),
		places: make(map[eventstore.Position][]int64), sizes: make(map[eventstore.Position]int),
	}
}

func (u *underTest) Open() eventstore.Store {
	u.t.Helper()
	if u.device != nil {
		u.device.close()
	}
	s, err := Open(u.path, Options{MinFree: 1, Publish: u.publish})
	if err != nil {
		u.t.Fatal(err)
	}
	u.store, u.device = s, attach(u.t, s)
	u.t.Cleanup(u.device.close)
	return s
}

// Verify includes bbolt's own check of its pages, which works on undamaged files
// while nothing is committed.
func (u *underTest) Verify(ctx context.Context, _ eventstore.Store) error {
	if err := u.store.Verify(ctx); err != nil {
		return err
	}
	return u.store.file.View(func(tx *bbolt.Tx) error {
		var all []error
		for err := range tx.Check() {
			all = append(all, err)
		}
		return errors.Join(all...)
	})
}

func (u *underTest) Stall(eventstore.Store) (<-chan struct{}, func()) {
	st := &stall{held: make(chan struct{}), released: make(chan struct{})}
	u.device.mu.Lock()
	defer u.device.mu.Unlock()
	u.device.stall = st
	return st.held, sync.OnceFunc(func() { close(st.released) })
}

func (u *underTest) Waiting(eventstore.Store) int {
	u.store.queue.mu.Lock()
	defer u.store.queue.mu.Unlock()
	return len(u.store.queue.next.commits)
}

func (u *underTest) Interrupted() bool { return false }

func (u *underTest) Shared() bool { return false }

func (u *underTest) Faults() []storetest.Fault {
	var faults []storetest.Fault
	add := func(name string, persisted bool, f fault) {
		faults = append(faults, storetest.Fault{Name: name, Persisted: persisted, Arm: func(eventstore.Store) { u.device.arm(f) }})
	}
	add("growing the file", false, fault{step: stepGrow})
	for page, name := range []string{"", "the first page", "the second page", "the third page", "the fourth page"} {
		if page == 0 {
			continue
		}
		add(name+", lost", false, fault{step: stepPage, page: page, keep: none})
		add(name+", torn", false, fault{step: stepPage, page: page, keep: half})
		add(name+", kept", false, fault{step: stepPage, page: page, keep: all})
	}
	add("syncing the pages", false, fault{step: stepSync})
	add("the meta page, lost", false, fault{step: stepMeta, keep: none})
	add("the meta page, kept", true, fault{step: stepMeta, keep: all})
	add("syncing the meta page, lost", false, fault{step: stepMetaSync, keep: none})
	add("syncing the meta page, kept", true, fault{step: stepMetaSync, keep: all})
	return faults
}

// Size stores where the record is in the file: bbolt keeps its value in one piece.
// Older pages that are free now may contain it too.
func (u *underTest) Size(p eventstore.Position) int {
	if n, ok := u.sizes[p]; ok {
		return n
	}
	var value []byte
	if err := u.store.file.View(func(tx *bbolt.Tx) error {
		value = bytes.Clone(tx.Bucket(bucketRecords).Get(positionKey(p)))
		return nil
	}); err != nil {
		u.t.Fatal(err)
	}
	file, err := os.ReadFile(u.path)
	if err != nil {
		u.t.Fatal(err)
	}
	for at := 0; ; at++ {
		i := bytes.Index(file[at:], value)
		if i < 0 {
			break
		}
		at += i
		u.places[p] = append(u.places[p], int64(at))
	}
	u.sizes[p] = len(value)
	return len(value)
}

func (u *underTest) Flip(p eventstore.Position, offset int) {
	f, err := os.OpenFile(u.path, os.O_RDWR, 0)
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, place := range u.places[p] {
		flip(u.t, f, place+int64(offset))
	}
}

func flip(t testing.TB, f *os.File, at int64) {
	t.Helper()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 << (at % 8)
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}
