package translog_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// stored keeps every hash of a tree, in tlog's order.
type stored []tlog.Hash

func (s stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x >= int64(len(s)) {
			return nil, fmt.Errorf("hash %d of %d", x, len(s))
		}
		out[i] = s[x]
	}
	return out, nil
}

func event(n int) []byte { return fmt.Appendf(nil, `{"sequence":%d}`, n) }

// tree is n events, hashed by tlog.
func tree(tb testing.TB, n int) stored {
	tb.Helper()
	var s stored
	for i := range n {
		hashes, err := tlog.StoredHashes(int64(i), event(i), s)
		if err != nil {
			tb.Fatal(err)
		}
		s = append(s, hashes...)
	}
	return s
}

func rootAt(tb testing.TB, n int, s stored) tlog.Hash {
	tb.Helper()
	h, err := tlog.TreeHash(int64(n), s)
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// mth is the definition of RFC 6962, section 2.1, word for word.
func mth(d [][]byte) [32]byte {
	switch len(d) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, d[0]...))
	}
	k := 1
	for 2*k < len(d) {
		k *= 2
	}
	left, right := mth(d[:k]), mth(d[k:])
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// TestEdge compares with tlog's functions and with the definition, for an edge opened
// at every size.
func TestEdge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 40), 0, 80).Draw(rt, "bodies")
		reopen := rapid.IntRange(0, 80).Draw(rt, "reopen")
		var e translog.Edge
		var all stored
		for i, b := range bodies {
			if i == reopen {
				var err error
				if e, err = translog.OpenEdge(eventstore.Position(i), all); err != nil {
					rt.Fatal(err)
				}
			}
			want, err := tlog.StoredHashes(int64(i), b, all)
			if err != nil {
				rt.Fatal(err)
			}
			got := e.Append(nil, translog.Leaf(b))
			if fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("stored hashes of leaf %d: got %v, want %v", i, got, want)
			}
			all = append(all, got...)
		}
		if e.Size() != eventstore.Position(len(bodies)) {
			rt.Fatalf("size %d, want %d", e.Size(), len(bodies))
		}
		if got := e.Root(); got != mth(bodies) || got != rootAt(t, len(bodies), all) {
			rt.Fatalf("root %v, want %v", got, tlog.Hash(mth(bodies)))
		}
	})
}

const allSizes = 200

// TestProofs makes and checks every proof between trees of up to 200 events, and
// checks that none is accepted for another event or tree.
func TestProofs(t *testing.T) {
	t.Parallel()
	s := tree(t, allSizes)
	at := make([]translog.Checkpoint, allSizes+1)
	for n := range at {
		at[n] = translog.Checkpoint{Origin: "o", Size: eventstore.Position(n), Root: rootAt(t, n, s)}
	}
	for n := 1; n <= allSizes; n++ {
		for m := 1; m <= n; m++ {
			in, err := translog.ProveInclusion(eventstore.Position(m), at[n].Size, s)
			if err != nil {
				t.Fatal(err)
			}
			if err := in.Check(at[n], event(m-1)); err != nil {
				t.Fatalf("inclusion of %d in %d: %v", m, n, err)
			}
			if in.Check(at[n], event(m)) == nil {
				t.Fatalf("inclusion of %d in %d passes for another event", m, n)
			}
			forged := at[n]
			forged.Root[7] ^= 1
			if in.Check(forged, event(m-1)) == nil || in.Check(at[n-1], event(m-1)) == nil {
				t.Fatalf("inclusion of %d in %d passes for another tree", m, n)
			}
			if m > 1 && n > 1 {
				moved := in
				moved.Position--
				if moved.Check(at[n], event(m-1)) == nil {
					t.Fatalf("inclusion of %d in %d passes for another position", m, n)
				}
			}
			con, err := translog.ProveConsistency(at[m].Size, at[n].Size, s)
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckTree(con.Hashes, int64(con.To), at[n].Root, int64(con.From), at[m].Root); err != nil {
				t.Fatalf("consistency of %d and %d: %v", m, n, err)
			}
		}
	}
	for _, c := range []struct{ position, size eventstore.Position }{{0, 5}, {6, 5}, {1, 0}} {
		if _, err := translog.ProveInclusion(c.position, c.size, s); err == nil {
			t.Errorf("inclusion of %d in %d is proved", c.position, c.size)
		}
		if _, err := translog.ProveConsistency(c.position, c.size, s); err == nil {
			t.Errorf("consistency of %d and %d is proved", c.position, c.size)
		}
	}
}
