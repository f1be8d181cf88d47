package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"
)

// TestBranchesThatLeadAstray: wherever the number of a page leads by mistake,
// opening the log tells so, in no time. bbolt would follow it for ever, or
// until a stack or the memory is used up.
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

	newest, _ := readMetaPage(f, 0)
	if second, _ := readMetaPage(f, int64(size)); second.transaction > newest.transaction {
		newest = second
	}
	branches := 0
	for _, branch := range liveBranches(t, f, newest) {
		branches++
		at := int(branch) * size
		elements := int(order.Uint16(whole[at+10:]))
		for _, i := range []int{0, elements / 2, elements - 1} {
			element := at + headerSize + elementSize*i + 8
			for _, to := range []int{0, 1, int(branch), int(newest.root), int(newest.freelist), used, 1 << 40} {
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
	free := int(newest.freelist) * size
	put("a list of free pages that is too long", free+10, append([]byte{0xff, 0xff, 0, 0, 0, 0}, number(1<<40)...))
	put("a list of free pages with others among them", free+headerSize, number(int(newest.root)))

	reopened(t, path)
}

func liveBranches(t *testing.T, f *os.File, m metaPage) (branches []uint64) {
	t.Helper()
	w := newTreeWalk(f, m)
	roots, err := w.bucketRoots(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range roots {
		p, err := w.read(root)
		if err != nil {
			t.Fatal(err)
		}
		if p.flags == flagBranch {
			branches = append(branches, root)
		}
	}
	return branches
}

// TestLargeFilesAreWalkedBeside opens a log as a large one is opened, whole and
// with a branch that leads astray: at the right edge that is refused at once,
// elsewhere it is fatal once it is found, and reading goes on until then.
func TestLargeFilesAreWalkedBeside(t *testing.T) {
	t.Parallel()
	path := written(t, 1500)
	openLarge := func() (*Store, error) { return open(path, false, 1) }

	s, err := openLarge()
	if err != nil {
		t.Fatal(err)
	}
	s.walking.Wait()
	if err := s.Err(); err != nil {
		t.Errorf("nothing is wrong: %v", err)
	}
	if n, err := s.Last(t.Context()); n != 1500 || err != nil {
		t.Errorf("last is %d, %v", n, err)
	}
	// It can be closed while the walk goes on.
	for range 20 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = openLarge(); err != nil {
			t.Fatal(err)
		}
	}
	var branch, elements, pageSize int
	err = s.db.View(func(tx *bbolt.Tx) error {
		pageSize = s.db.Info().PageSize
		branch = int(tx.Bucket(bucketRecords).Root())
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
	at := branch * pageSize
	elements = int(order.Uint16(whole[at+10:]))
	if order.Uint16(whole[at+8:]) != flagBranch || elements < 3 {
		t.Fatalf("the records' root is no branch of several pages: %d", elements)
	}
	for i, atOnce := range map[int]bool{1: false, elements - 1: true} {
		damaged := bytes.Clone(whole)
		order.PutUint64(damaged[at+headerSize+elementSize*i+8:], uint64(branch))
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openLarge()
		if atOnce {
			wantOpenError(t, "the right edge leads astray", err, ErrDamaged)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		<-s.Fatal()
		if err := s.Err(); !errors.Is(err, ErrDamaged) {
			t.Errorf("the walk found %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
