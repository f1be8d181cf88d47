package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// TestBranchesThatLeadAstray: a branch may contain any wrong page number. Open finds
// it at once, where bbolt would follow it for ever, or until the stack or the memory
// is full.
func TestBranchesThatLeadAstray(t *testing.T) {
	t.Parallel()
	path := written(t, 400)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := os.Getpagesize()
	order := binary.NativeEndian
	used := int(usedBytes(t, path)) / size
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	put := func(what string, at int, b []byte) {
		t.Helper()
		if _, err := f.WriteAt(b, int64(at)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, open := range []func(string) (*Store, error){openDefault, OpenReadOnly} {
			if s, err := open(path); err == nil {
				_ = s.Close()
				t.Errorf("%s: it is opened", what)
			} else {
				wantOpenError(t, what, err, ErrDamaged)
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s: noticed after %s", what, took)
		}
		if _, err := f.WriteAt(whole[at:at+len(b)], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	number := func(n int) []byte { return order.AppendUint64(nil, uint64(n)) }

	newest, err := boltfile.ReadMeta(f)
	if err != nil {
		t.Fatal(err)
	}
	branches := 0
	for _, branch := range liveBranches(t, f, newest) {
		branches++
		at := int(branch) * size
		elements := int(order.Uint16(whole[at+10:]))
		for _, i := range []int{0, elements / 2, elements - 1} {
			element := at + headerSize + elementSize*i + 8
			for _, to := range []int{0, 1, int(branch), int(newest.Root), int(newest.Freelist), used, 1 << 40} {
				put("a branch that leads to another page", element, number(to))
			}
			if i > 0 {
				put("a branch that leads to a page twice", element, whole[element-elementSize:element-elementSize+8])
			}
		}
	}
	if branches < 2 {
		t.Errorf("the log has only %d branches", branches)
	}
	free := int(newest.Freelist) * size
	put("a list of free pages that is too long", free+10, append([]byte{0xff, 0xff, 0, 0, 0, 0}, number(1<<40)...))
	put("a list of free pages with others among them", free+headerSize, number(int(newest.Root)))

	reopened(t, path)
}

// liveBranches are the roots of buckets that are branches.
func liveBranches(t *testing.T, f *os.File, m boltfile.Meta) (branches []uint64) {
	t.Helper()
	pages := boltfile.Pages{File: f, Meta: m}
	buckets, err := pages.Read(m.Root, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range buckets.Len() {
		e, _ := buckets.Element(i)
		root := binary.NativeEndian.Uint64(e.Value)
		if root == 0 {
			continue
		}
		p, err := pages.Read(root, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.Branch() {
			branches = append(branches, root)
		}
	}
	return branches
}

// TestLargeFilesAreCheckedBeside opens a log in the way of a large one, undamaged
// and with several kinds of damage. At the right edge damage is refused at once.
// Elsewhere it suspends commits once it is found, and reading goes on. No commit is
// made before the free pages are known.
func TestLargeFilesAreCheckedBeside(t *testing.T) {
	t.Parallel()
	const records = 1500
	path := written(t, records)
	openLarge := func(report func(error)) (*Store, error) {
		s, err := open(path, false, 1)
		if err != nil {
			return nil, err
		}
		s.options = Options{MinFree: 1, Report: report}
		s.begin()
		return s, nil
	}
	quiet := func(err error) { t.Error(err) }
	s, err := openLarge(quiet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eventstore.AppendOne(t.Context(), s, commitOf(records, 0)); err != nil {
		t.Error(err)
	}
	<-s.sound
	// Close works while the check runs.
	for range rounds(5, 20) {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = openLarge(quiet); err != nil {
			t.Fatal(err)
		}
	}
	var branch, heads, size int
	err = s.file.View(func(tx *bbolt.Tx) error {
		size = s.file.DB().Info().PageSize
		branch = int(tx.Bucket(bucketRecords).Root())
		heads = int(tx.Bucket(bucketHeads).Root())
		return nil
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	order := binary.NativeEndian
	below := func(b []byte, page, i int) int {
		at := page*size + headerSize + elementSize*i + 8
		return int(order.Uint64(b[at:]))
	}
	elements := int(order.Uint16(whole[branch*size+10:]))
	if order.Uint16(whole[branch*size+8:]) != 1 || order.Uint16(whole[heads*size+8:]) != 1 || elements < 3 {
		t.Fatalf("a root is no branch of several pages: %d", elements)
	}
	for what, c := range map[string]struct {
		refused bool
		spoil   func(b []byte)
	}{
		"a branch that leads to itself": {false, func(b []byte) {
			order.PutUint64(b[branch*size+headerSize+elementSize+8:], uint64(branch))
		}},
		"the right edge leads astray": {true, func(b []byte) {
			order.PutUint64(b[branch*size+headerSize+elementSize*(elements-1)+8:], uint64(branch))
		}},
		"a leaf of heads that is followed by a page": {false, func(b []byte) {
			order.PutUint32(b[below(b, heads, 1)*size+12:], 1)
		}},
		"a key among the branches of heads": {true, func(b []byte) {
			at := heads*size + headerSize + elementSize
			b[at+int(order.Uint32(b[at:]))+12] ^= 1
		}},
	} {
		damaged := bytes.Clone(whole)
		c.spoil(damaged)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		told := make(chan error, 1)
		s, err := openLarge(func(err error) { told <- err })
		if c.refused {
			wantOpenError(t, what, err, ErrDamaged)
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		var suspended *eventstore.SuspendedError
		if err := <-told; !errors.As(err, &suspended) || s.Suspended() == nil {
			t.Errorf("%s: %v, suspended: %v", what, err, s.Suspended())
		}
		if _, err := eventstore.AppendOne(t.Context(), s, commitOf(records+1, 0)); !errors.As(err, &suspended) {
			t.Errorf("%s: a commit is answered with %v", what, err)
		}
		if n, err := s.Last(t.Context()); n != records+1 || err != nil || s.Err() != nil {
			t.Errorf("%s: last is %d, %v, %v", what, n, err, s.Err())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

const headerSize, elementSize = 16, 16

// TestDamagedRecordsAreReported: a damaged record is found without a read of it, and
// suspends nothing.
func TestDamagedRecordsAreReported(t *testing.T) {
	t.Parallel()
	path := written(t, 300)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	id := commitOf(7, 0).ID
	for at := 0; ; at++ {
		i := bytes.Index(whole[at:], id[:])
		if i < 0 {
			break
		}
		if at += i; whole[at-2] == 3 { // the id stands in the head too
			whole[at+20] ^= 1
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 1)
	s, err := Open(path, Options{MinFree: 1, Report: func(err error) { told <- err }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var corrupt *eventstore.CorruptError
	if err := <-told; !errors.As(err, &corrupt) || corrupt.Position != 8 || !s.Damaged() {
		t.Errorf("%v", err)
	}
	c := commitOf(300, 0)
	c.Claim = nil // whether the damaged record has its key is not known
	if _, err := eventstore.AppendOne(t.Context(), s, c); err != nil || s.Suspended() != nil {
		t.Errorf("%v, suspended: %v", err, s.Suspended())
	}
}
