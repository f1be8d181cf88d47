package bolt

import (
	"encoding/binary"
	"os"
	"testing"
	"time"
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
		if took := time.Since(began); took > 5*time.Second {
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
	w := &treeWalk{file: f, pageSize: int64(m.pageSize), pages: m.pages, met: make([]uint64, m.pages/64+1)}
	var roots []uint64
	if err := w.walk(m.root, func(p treePage) (err error) {
		roots, err = p.buckets(roots)
		return err
	}); err != nil {
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
