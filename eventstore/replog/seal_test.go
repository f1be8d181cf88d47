package replog

import (
	"bytes"
	"crypto/cipher"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"payledger/eventstore"
)

func testKey(first byte) []byte { return append([]byte{first}, make([]byte, 31)...) }

// TestSealedDetails open with the key, for the group, the record and its number that they were sealed
// with, and for nothing else. Sealing again gives the same bytes, since a nonce names exact bytes.
func TestSealedDetails(t *testing.T) {
	t.Parallel()
	key, group, record, details := testKey(1), Nonce{1, 15: 1}, []byte("the record"), bytes.Repeat([]byte("what a customer typed "), 30)
	c := cipherOf(key, group)
	sealed := seal(c, 3, record, details)
	if got, err := open(cipherOf(key, group), 3, record, sealed); err != nil || !bytes.Equal(got, details) {
		t.Fatalf("%q, %v", got, err)
	}
	if again := seal(cipherOf(key, group), 3, record, details); !bytes.Equal(again, sealed) || len(sealed) != len(details)+sealMore {
		t.Errorf("sealed again: %d bytes, and before %d", len(again), len(sealed))
	}
	for at := range len(details) - 5 {
		if bytes.Contains(sealed, details[at:at+6]) {
			t.Fatalf("%q can be read", details[at:at+6])
		}
	}
	refused := func(what string, c cipher.AEAD, i int, record, sealed []byte) {
		if got, err := open(c, i, record, sealed); err == nil {
			t.Errorf("%s: opened as %q", what, got)
		}
	}
	refused("another key", cipherOf(testKey(2), group), 3, record, sealed)
	refused("another group", cipherOf(key, Nonce{1, 15: 2}), 3, record, sealed)
	refused("another number", c, 4, record, sealed)
	refused("another record", c, 3, []byte("the Record"), sealed)
	for n := range sealed {
		refused("cut", c, 3, record, sealed[:n])
		other := bytes.Clone(sealed)
		other[n] ^= 1
		refused("changed", c, 3, record, other)
	}
}

// TestSealsOfARecordDiffer: nothing is learned from the same details of two records or groups.
func TestSealsOfARecordDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for group := range byte(4) {
		c := cipherOf(testKey(1), Nonce{15: group})
		for i := range 256 {
			sealed := seal(c, i, nil, []byte("the same details"))
			for _, part := range [][]byte{sealed[:8], sealed[8:16], sealed[16:]} {
				if seen[string(part)] {
					t.Fatalf("group %d, record %d: seen before", group, i)
				}
				seen[string(part)] = true
			}
		}
	}
}

// TestJetStreamHoldsNoDetails: all nodes have them, and no file of their servers does.
func TestJetStreamHoldsNoDetails(t *testing.T) {
	t.Parallel()
	x := startThree(t, 0)
	x.leader()
	const records, typed = 12, "what a customer typed"
	for i := range records {
		c := paymentCommit(i, 0)
		c.Record.Details = append(bytes.Repeat([]byte{byte(i)}, eventstore.SaltSize), typed...)
		if _, err := x.appended(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	x.same(records)
	for i, s := range x.stores {
		for r, err := range s.Scan(t.Context(), 0, eventstore.Filter{}) {
			if want := append(bytes.Repeat([]byte{byte(r.Position - 1)}, eventstore.SaltSize), typed...); err != nil || !bytes.Equal(r.Details, want) {
				t.Errorf("node %s: the details of record %d are %q: %v", nodeNames[i], r.Position, r.Details, err)
			}
		}
	}
	for i := range nodeNames {
		x.stop(i)
	}
	count := func(dir, of string) (n int) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			n += bytes.Count(content, []byte(of))
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return n
	}
	plain := paymentCommit(records-1, 0).ID.String() // in the body of the last record, which LOG keeps
	for i := range nodeNames {
		if n := count(x.options[i].StoreDir, typed); n > 0 {
			t.Errorf("the files of node %s's server hold details %d times", nodeNames[i], n)
		}
		if count(x.options[i].StoreDir, plain) == 0 {
			t.Errorf("the files of node %s's server do not hold the record: this shows nothing", nodeNames[i])
		}
	}
	if count(x.dir, typed) < records*len(nodeNames) {
		t.Error("the nodes' files lack details")
	}
}

// FuzzSealed: what is sealed opens to the same, and no bytes open by themselves.
func FuzzSealed(f *testing.F) {
	f.Add([]byte("key"), []byte("group"), 3, []byte("record"), []byte("details"))
	f.Add([]byte{}, []byte{}, 0, []byte{}, []byte{})
	f.Add(testKey(1), make([]byte, 16), 1<<20, make([]byte, 300), make([]byte, 5000))
	f.Fuzz(func(t *testing.T, key, group []byte, i int, record, details []byte) {
		var nonce Nonce
		copy(nonce[:], group)
		c := cipherOf(key, nonce)
		got, err := open(c, i, record, seal(c, i, record, details))
		if err != nil || !bytes.Equal(got, details) {
			t.Errorf("%q, want %q: %v", got, details, err)
		}
		if got, err := open(c, i, record, details); err == nil {
			t.Errorf("%q opens as %q", details, got)
		}
	})
}
