package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bbolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// used makes a file as programs leave it: several buckets, filled in different
// orders, with values of all sizes, many of them deleted again. each is called after
// every transaction.
func used(t *testing.T, seed uint64, transactions int, each func(*File)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "used.db")
	f, err := Open(path, Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	f.DB().NoSync = true
	random := rand.New(rand.NewPCG(seed, 1))
	keys := make(map[string][][]byte)
	for n := range transactions {
		err := f.Update(func(tx *bbolt.Tx) error {
			for _, name := range []string{"rising", "random", "small", "large"} {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				b.FillPercent = 0.3 + random.Float64()*0.7
				for range random.IntN(60) {
					key := binary.BigEndian.AppendUint64(nil, uint64(n)<<20+uint64(len(keys[name])))
					size := random.IntN(120)
					switch name {
					case "random":
						binary.BigEndian.PutUint64(key, random.Uint64())
						key = key[:1+random.IntN(8)]
					case "small":
						key, size = key[7:], 2
					case "large":
						size = random.IntN(20000)
					}
					if err := b.Put(key, make([]byte, size)); err != nil {
						return err
					}
					keys[name] = append(keys[name], key)
				}
				// Sometimes whole ranges are deleted, so that pages are merged and
				// removed.
				for range random.IntN(70) * (n / 5 % 2) {
					if all := keys[name]; len(all) > 0 && name != "small" {
						i := random.IntN(len(all))
						if err := b.Delete(all[i]); err != nil {
							return err
						}
						keys[name] = append(all[:i], all[i+1:]...)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if each != nil {
			each(f)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSoundFilesAreSound: every file that bbolt writes passes each extent of the
// check, and so does a copy taken while it is in use.
func TestSoundFilesAreSound(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 2))
	checks := map[string]Check{
		"all": {}, "edges": {Edges: true}, "no leaves": {Leaves: func(string) bool { return false }},
		"some leaves": {Leaves: func(bucket string) bool { return bucket == "rising" }},
	}
	path := used(t, seed, 60, func(f *File) {
		for name, c := range checks {
			if err := f.Check(c); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, name, err)
			}
		}
		if random.IntN(20) == 0 {
			if err := bboltCheck(f); err != nil {
				t.Fatalf("seed %d: bbolt: %v", seed, err)
			}
		}
	})
	for name, c := range checks {
		for _, readOnly := range []bool{false, true} {
			f, err := Open(path, Options{Check: c, AtOnce: AtOnce, ReadOnly: readOnly})
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, name, err)
			}
			copied := filepath.Join(t.TempDir(), "copy.db")
			if err := f.View(func(tx *bbolt.Tx) error { return tx.CopyFile(copied, 0o600) }); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if f, err = Open(copied, Options{Check: c, AtOnce: AtOnce}); err != nil {
				t.Fatalf("seed %d: %s of a copy: %v", seed, name, err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// bboltCheck runs bbolt's own check, for which a file has to be undamaged.
func bboltCheck(f *File) error {
	return f.View(func(tx *bbolt.Tx) error {
		var all []error
		for err := range tx.Check() {
			all = append(all, err)
		}
		return errors.Join(all...)
	})
}

// TestFlippedBits flips bits of the structure that bbolt follows, in pages in use.
// Every one is found, except in a bucket's sequence and in the headers of the first
// two pages, which are never read.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 3))
	path := used(t, seed, 40, nil)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadMeta(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	places := structure(t, whole, m)
	for range 1200 {
		at := places[random.IntN(len(places))]
		bit := byte(1) << random.IntN(8)
		whole[at] ^= bit
		err := Check{}.Run(bytes.NewReader(whole), m)
		if !Damaged(err) {
			t.Errorf("seed %d: bit %#x of byte %d of page %d: %v", seed, bit, at%int(m.PageSize), at/int(m.PageSize), err)
		}
		whole[at] ^= bit
	}
}

// structure lists the bytes of headers, elements and lists of free pages, and
// of the keys of branches.
func structure(t *testing.T, file []byte, m Meta) (places []int) {
	t.Helper()
	pages := Pages{bytes.NewReader(file), m}
	add := func(from, n int) {
		for i := range n {
			places = append(places, from+i)
		}
	}
	free, err := pages.Read(m.Freelist, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := int(m.Freelist * uint64(m.PageSize))
	add(at, headerSize+8*free.elements)
	var walk func(page uint64, top bool)
	walk = func(page uint64, top bool) {
		p, err := pages.Read(page, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := int(page * uint64(m.PageSize))
		add(at, headerSize)
		for i := range p.Len() {
			e, _ := p.Element(i)
			key := at + headerSize + elementSize*i + int(binary.NativeEndian.Uint32(p.body[headerSize+elementSize*i:]))
			add(at+headerSize+elementSize*i, elementSize)
			switch {
			case p.Branch():
				add(key, len(e.Key))
				walk(e.Below, top)
			case top && binary.NativeEndian.Uint64(e.Value) != 0:
				walk(binary.NativeEndian.Uint64(e.Value), false)
			}
		}
		// The size of a leaf's last value cannot be checked here, as long as it
		// needs the same number of pages.
		if p.Leaf() && !top && p.Len() > 0 {
			last := at + headerSize + elementSize*(p.Len()-1)
			for i := len(places) - elementSize; i < len(places); i++ {
				if places[i] >= last+8 {
					places = places[:i]
					break
				}
			}
		}
	}
	walk(m.Root, true)
	return places
}

// TestOpenRefuses files that cannot be used, and releases the lock.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	path := used(t, 1, 40, nil)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadMeta(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	// bbolt makes files longer than needed.
	inUse := m.Size()
	sizes := []int64{0, 1, 16, 79, 80, 4095, 4096, 4097, 8191, 8192, 8193, 12288, inUse / 2, inUse - 4096, inUse - 1}
	for _, size := range sizes {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		for _, readOnly := range []bool{false, true} {
			if _, err := Open(path, Options{AtOnce: AtOnce, ReadOnly: readOnly}); !Damaged(err) {
				t.Errorf("%d of %d bytes: %v", size, inUse, err)
			}
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, Options{AtOnce: AtOnce})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{}, {ReadOnly: true}} {
		if _, err := Open(path, o); !errors.Is(err, ErrLocked) {
			t.Errorf("%v", err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path+"x", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := Open(filepath.Dir(path), Options{ReadOnly: true}); !Damaged(err) {
		t.Errorf("%v", err)
	}
}

// TestCutWhileOpen truncates a file under readers and a writer: each gets an error,
// none hangs, and Close returns.
func TestCutWhileOpen(t *testing.T) {
	t.Parallel()
	for _, pages := range []int{0, 1, 2, 3, 10} {
		t.Run(fmt.Sprint(pages), func(t *testing.T) {
			t.Parallel()
			path := used(t, 2, 30, nil)
			f, err := Open(path, Options{AtOnce: AtOnce})
			if err != nil {
				t.Fatal(err)
			}
			ends := make(chan error)
			const readers = 4
			for range readers {
				go func() {
					var err error
					for err == nil {
						err = f.View(func(tx *bbolt.Tx) error {
							for _, name := range []string{"rising", "random", "large"} {
								if err := tx.Bucket([]byte(name)).ForEach(func(_, v []byte) error { touchAll(v); return nil }); err != nil {
									return err
								}
							}
							return nil
						})
					}
					ends <- err
				}()
			}
			go func() {
				var err error
				for n := uint64(0); err == nil; n++ {
					if err = f.Update(func(tx *bbolt.Tx) error {
						return tx.Bucket([]byte("random")).Put(binary.BigEndian.AppendUint64(nil, n*7919), make([]byte, 100))
					}); err == nil {
						err = f.InPlace()
					}
				}
				ends <- err
			}()
			if err := os.Truncate(path, int64(pages*os.Getpagesize())); err != nil {
				t.Fatal(err)
			}
			for range readers + 1 {
				if err := <-ends; !Damaged(err) {
					t.Errorf("%v", err)
				}
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			// The lock is released.
			letGo, err := Hold(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := letGo(); err != nil {
				t.Error(err)
			}
		})
	}
}

func touchAll(b []byte) (sum byte) {
	for _, c := range b {
		sum += c
	}
	return sum
}
