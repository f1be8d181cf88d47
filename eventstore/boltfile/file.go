package boltfile

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	bbolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// Options are those of Open. The zero value opens a file that exists, for
// reading and writing.
type Options struct {
	ReadOnly bool // several may read at once while there is no writer
	Create   bool // makes a file where there is none

	// Check is done before bbolt opens the file, if it has at most AtOnce pages; of
	// a larger file only the edges are checked.
	Check  Check
	AtOnce uint64
}

// AtOnce is the number of pages that are checked while a caller waits: 256 MiB of
// the usual size take a tenth of a second if every page has to be read, and some
// ten milliseconds without leaves.
const AtOnce = 1 << 16

// Why a file cannot be opened, besides damage and errors of the system.
var (
	ErrLocked = errors.New("the file is in use by another process")
	// ErrMoved: another file was put at the path while this one was opened.
	ErrMoved = errors.New("the file is being replaced")
	// ErrClosed: the file was closed.
	ErrClosed = berrors.ErrDatabaseNotOpen
	// ErrFull: the disk has no blocks for what is to be written. Nothing was.
	ErrFull = errors.New("the disk has no space for the file to grow")
)

// mapSize is the address space that is reserved at least: 64 GiB, on 32-bit systems
// 1 MiB. When a file grows beyond its mapping, writers wait for all readers, and
// new readers for the writer.
const mapSize = 1 << (strconv.IntSize/2 + 4)

// File is an open file. It is safe for concurrent use.
type File struct {
	path   string
	file   *os.File
	db     *bbolt.DB
	meta   Meta // when it was opened; zero if it was new
	opened unix.Stat_t
	second int64 // where the second page begins
	ro     bool

	writing  chan struct{} // has room for one: the lock of writers, who may hold it for long
	unsynced bool          // the last commit failed; guarded by writing
	longest  atomic.Int64  // that the file was seen to be
	closing  atomic.Bool

	reading sync.Mutex
	readers map[int]int // how many transactions read each state

	reserving sync.Mutex
	reserved  int64 // blocks are reserved up to this offset

	broken atomic.Pointer[error] // why a lock of bbolt may be stuck: the file can then only be closed
}

// Open opens a file and takes its lock without waiting. The error is a
// *DamagedError, ErrLocked, ErrMoved or the system's.
func Open(path string, o Options) (_ *File, err error) {
	f := &File{path: path, ro: o.ReadOnly, writing: make(chan struct{}, 1), readers: make(map[int]int)}
	defer func() {
		if err != nil && f.file != nil {
			_ = release(f.file) // bbolt may have lost track of it
		}
	}()
	if err := f.lock(o); err != nil {
		return nil, err
	}
	size, err := f.inspect(o)
	if err != nil {
		return nil, err
	}
	mapping := int64(mapSize)
	if strconv.IntSize == 64 {
		mapping = max(mapping, 2*size)
	}
	err = Guard(func() error {
		options := settings()
		options.ReadOnly, options.PreLoadFreelist, options.InitialMmapSize = o.ReadOnly, true, int(mapping)
		options.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
			if name != path {
				return os.OpenFile(name, flag, mode)
			}
			return f.file, nil
		}
		f.db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	if err != nil {
		if errno := syscall.Errno(0); !Damaged(err) && !errors.As(err, &errno) {
			err = damage("%v", err)
		}
		return nil, err
	}
	f.second = int64(f.db.Info().PageSize)
	return f, nil
}

// settings are bbolt's for every file: it does not wait for the lock, and keeps the
// free pages in a map, which is faster when there are many.
func settings() *bbolt.Options {
	return &bbolt.Options{Timeout: 1, FreelistType: bbolt.FreelistMapType, NoStatistics: true}
}

// OpenNew creates a file, or opens one that this process just created and does not share yet. It
// has no more pages than it needs: bbolt makes a file as large as 16 MiB at once where address
// space is reserved.
func OpenNew(path string) (*bbolt.DB, error) { return bbolt.Open(path, 0o600, settings()) }

// lock opens the file and takes the lock that bbolt takes on the descriptor
// again.
func (f *File) lock(o Options) (err error) {
	flag, how := os.O_RDWR, unix.LOCK_EX
	if o.ReadOnly {
		flag, how = os.O_RDONLY, unix.LOCK_SH
	}
	if o.Create {
		flag |= os.O_CREATE
	}
	if f.file, err = os.OpenFile(f.path, flag, 0o600); err != nil {
		f.file = nil
		return err
	}
	err = unix.Flock(int(f.file.Fd()), how|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return ErrLocked
	case err != nil:
		return fmt.Errorf("locking: %w", err)
	}
	if err := unix.Fstat(int(f.file.Fd()), &f.opened); err != nil {
		return err
	}
	if f.InPlace() != nil {
		return ErrMoved
	}
	return nil
}

// inspect checks the file before bbolt opens it.
func (f *File) inspect(o Options) (size int64, err error) {
	info, err := f.file.Stat()
	switch {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, &DamagedError{"not a regular file", true}
	case info.Size() == 0 && o.Create:
		return 0, nil
	case info.Size() == 0:
		return 0, damage("the file is empty")
	}
	if f.meta, err = ReadMeta(f.file); err != nil {
		return 0, err
	}
	if want := f.meta.Size(); info.Size() < want {
		return 0, damage("it was cut off: %d bytes, %d are in use", info.Size(), want)
	}
	check := o.Check
	check.Edges = check.Edges || f.meta.Pages > o.AtOnce
	return info.Size(), check.Run(f.file, f.meta)
}

// release unlocks and closes the file. Without the unlock, a child process that is being forked at
// this moment would keep the lock until it runs its program.
func release(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// Descriptor is the open file, in which tests make faults.
func (f *File) Descriptor() *os.File { return f.file }

// Opened is the state that the file was opened in.
func (f *File) Opened() Meta { return f.meta }

// DB is for bbolt's settings and counters. Transactions are begun by File.
func (f *File) DB() *bbolt.DB { return f.db }

// Err says why the file is broken, nil if it is not.
func (f *File) Err() error {
	if why := f.broken.Load(); why != nil {
		return *why
	}
	return nil
}

func (f *File) breaks(why error) error {
	f.broken.CompareAndSwap(nil, new(f.explain(why)))
	return f.Err()
}

// explain finds the reason of a fault in the file, if it can be seen there.
func (f *File) explain(err error) error {
	info, statErr := f.file.Stat()
	m, metaErr := ReadMeta(f.file)
	switch {
	case statErr != nil:
	case info.Size() == 0, info.Size() < f.longest.Load(), metaErr == nil && info.Size() < m.Size():
		return damage("it was cut off while it was open: %d bytes are left (%v)", info.Size(), err)
	case metaErr != nil:
		return damage("it was written over while it was open: %v (%v)", metaErr, err)
	}
	return err
}

// Begin begins a read transaction. The caller ends it with End.
func (f *File) Begin() (tx *bbolt.Tx, err error) {
	switch {
	case f.Err() != nil:
		return nil, f.Err()
	case f.closing.Load():
		return nil, ErrClosed
	}
	f.reading.Lock() // so that a reader is counted from the moment that its state is fixed
	err = Guard(func() error {
		if tx, err = f.db.Begin(false); err == nil {
			f.readers[tx.ID()]++
		}
		return err
	})
	f.reading.Unlock()
	if Damaged(err) {
		f.unlockReaders()
		return nil, f.breaks(err)
	}
	return tx, err
}

// unlockReaders unlocks the locks that bbolt holds while it begins a read transaction and keeps if
// it panics there. All other readers, and a writer in the middle of its commit, would wait for them
// forever.
func (f *File) unlockReaders() {
	db := reflect.ValueOf(f.db).Elem()
	if l := fieldOf[sync.RWMutex](db, "mmaplock"); l != nil {
		l.RUnlock()
	}
	if l := fieldOf[sync.Mutex](db, "metalock"); l != nil {
		l.Unlock()
	}
}

func fieldOf[T any](of reflect.Value, name string) *T {
	v := of.FieldByName(name)
	if !v.IsValid() || v.Type() != reflect.TypeFor[T]() {
		return nil
	}
	return (*T)(unsafe.Pointer(v.UnsafeAddr())) //nolint:gosec // the type is the same
}

// End ends a read transaction.
func (f *File) End(tx *bbolt.Tx) {
	state := tx.ID()
	_ = tx.Rollback() // it has nothing to lose
	f.reading.Lock()
	defer f.reading.Unlock()
	if f.readers[state]--; f.readers[state] == 0 {
		delete(f.readers, state)
	}
}

// View runs fn in a read transaction. The error for damage that fn met is a
// *DamagedError.
func (f *File) View(fn func(*bbolt.Tx) error) error {
	tx, err := f.Begin()
	if err != nil {
		return err
	}
	defer f.End(tx)
	return f.Guard(func() error { return fn(tx) })
}

// Guard runs fn, which reads in a transaction. The error for damage that fn met is a
// *DamagedError, with the reason if it can be seen in the file.
func (f *File) Guard(fn func() error) error {
	err := Guard(fn)
	if Damaged(err) {
		return f.explain(err)
	}
	return err
}

// Update runs fn in a write transaction, and returns once it is synced. After a
// panic, or if the file was truncated, it is broken.
func (f *File) Update(fn func(*bbolt.Tx) error) error {
	// bbolt's lock of writers stays locked after a panic.
	f.writing <- struct{}{}
	defer func() { <-f.writing }()
	switch {
	case f.Err() != nil:
		return f.Err()
	case f.closing.Load():
		return ErrClosed
	}
	// A commit would make a file that was cut off as long again as it was.
	if err := f.InPlace(); Damaged(err) {
		return f.breaks(err)
	}
	returned, committing := false, false
	err := Guard(func() error {
		err := f.db.Update(func(tx *bbolt.Tx) error {
			err := fn(tx)
			committing = err == nil
			return err
		})
		returned = true
		return err
	})
	if committing {
		f.unsynced = err != nil
	}
	if !returned {
		return f.breaks(err)
	}
	return err
}

// Close waits for all transactions and closes the file. Closing again does nothing.
func (f *File) Close() error {
	if f.closing.Swap(true) {
		return nil
	}
	f.writing <- struct{}{}
	defer func() { <-f.writing }()
	if f.Err() != nil {
		return release(f.file)
	}
	var unlocked error
	if f.ro { // bbolt releases only the lock of a writer
		unlocked = unix.Flock(int(f.file.Fd()), unix.LOCK_UN)
	}
	return errors.Join(unlocked, Guard(f.db.Close))
}
