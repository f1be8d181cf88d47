package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"payledger/eventstore"
	"payledger/eventstore/bolt/record"
)

// findIn finds the records in the bytes, by position, and reads each again.
func findIn(t *testing.T, b []byte) (all map[eventstore.Position][]FoundRecord, info FileInfo) {
	t.Helper()
	all = make(map[eventstore.Position][]FoundRecord)
	info, err := FindRecords(t.Context(), bytes.NewReader(b), int64(len(b)), func(int64) {}, func(c FoundRecord) error {
		if _, err := ReadFound(bytes.NewReader(b), c); err != nil {
			t.Error(err)
		}
		all[c.Position] = append(all[c.Position], c)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, info
}

// carving is a closed log with records of many sizes, and its records.
func carving(t *testing.T) (file []byte, want []eventstore.Stored, s *Store) {
	t.Helper()
	u, s := filled(t, 40)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 120 {
		c := numbered(100 + i)
		size := random.IntN(700) + 1
		if i%30 == 7 {
			size = eventstore.MaxBody - random.IntN(300) // of several pages
		}
		c.Record.Body = append(append([]byte(`{"`), bytes.Repeat([]byte{'a' + byte(i%26), 2, 0, 0}, size/4+1)[:size-min(size, 4)]...), `"}`...)
		if i%5 == 0 {
			c.Claim = &eventstore.Claim{Key: [32]byte{1, byte(i)}, Forever: i%2 == 0}
		}
		if _, err := eventstore.AppendOne(t.Context(), s, c); err != nil {
			t.Fatal(err)
		}
	}
	want = scanned(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(u.path)
	if err != nil {
		t.Fatal(err)
	}
	return file, want, s
}

func TestFindRecords(t *testing.T) {
	inOneGoroutine(t)
	t.Parallel()
	file, want, s := carving(t)
	read := func(b []byte, c FoundRecord) eventstore.Stored {
		r, _ := ReadFound(bytes.NewReader(b), c)
		return r
	}
	// whole fails unless every record is found, and returns how many are in use.
	whole := func(t *testing.T, b []byte) (used int) {
		t.Helper()
		all, _ := findIn(t, b)
		for _, r := range want {
			ok := slices.ContainsFunc(all[r.Position], func(c FoundRecord) bool { return bytes.Equal(read(b, c).Body, r.Body) })
			if !ok {
				t.Errorf("position %d of %d bytes is not found", r.Position, len(r.Body))
			}
			if slices.ContainsFunc(all[r.Position], func(c FoundRecord) bool { return c.Used }) {
				used++
			}
		}
		if len(all) != len(want) {
			t.Errorf("%d positions, want %d", len(all), len(want))
		}
		return used
	}
	_, info := findIn(t, file)
	if info.LogID != s.LogID() || info.Unread != 0 {
		t.Errorf("%+v", info)
	}
	if used := whole(t, file); used != len(want) {
		t.Errorf("%d of %d records are in use", used, len(want))
	}

	page := int(binary.NativeEndian.Uint32(file[24:]))
	begins := func(b []byte, at int) bool { return binary.NativeEndian.Uint64(b[at:]) == uint64(at/page) } // not one that follows another
	spoil := func(name string, used bool, change func([]byte) []byte) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if n := whole(t, change(bytes.Clone(file))); used != (n == len(want)) {
				t.Errorf("%d of %d records are in use", n, len(want))
			}
		})
	}
	spoil("both states", false, func(b []byte) []byte { clear(b[:2*page]); return b })
	spoil("the headers and elements of every page", false, func(b []byte) []byte {
		for at := 0; at < len(b); at += page {
			if begins(b, at) {
				clear(b[at : at+16])
			}
		}
		return b
	})
	spoil("everything moved by three bytes", false, func(b []byte) []byte { return append([]byte("abc"), b...) })
	spoil("flags and numbers of elements", true, func(b []byte) []byte {
		// The list of free pages can still be read.
		free := int(binary.NativeEndian.Uint64(b[16+32:]))
		if binary.NativeEndian.Uint64(b[page+16+48:]) > binary.NativeEndian.Uint64(b[16+48:]) {
			free = int(binary.NativeEndian.Uint64(b[page+16+32:]))
		}
		for at := 2 * page; at < len(b); at += page {
			if at != free*page && begins(b, at) {
				b[at+10] ^= 0xff
			}
		}
		return b
	})
}

// TestFindDamage damages one record after the other: only that one is lost.
func TestFindDamage(t *testing.T) {
	inOneGoroutine(t)
	t.Parallel()
	file, want, _ := carving(t)
	all, _ := findIn(t, file)
	random := rand.New(rand.NewPCG(3, 4))
	for range rounds(6, 20) {
		r := want[random.IntN(len(want))]
		b := bytes.Clone(file)
		for _, c := range all[r.Position] {
			b[c.Offset+int64(random.IntN(c.Size))] ^= 1 << random.IntN(8)
		}
		left, _ := findIn(t, b)
		if n := len(left[r.Position]); n != 0 || len(left) != len(all)-1 {
			t.Errorf("position %d: %d found, %d positions of %d", r.Position, n, len(left), len(all))
		}
	}
}

// badDisk fails to read some of its bytes.
type badDisk struct {
	*bytes.Reader
	from, to int64
}

func (d badDisk) ReadAt(b []byte, at int64) (int, error) {
	if at < d.to && at+int64(len(b)) > d.from {
		return 0, errors.New("input/output error")
	}
	return d.Reader.ReadAt(b, at)
}

func TestFindUnreadable(t *testing.T) {
	inOneGoroutine(t)
	t.Parallel()
	file, _, _ := carving(t)
	all, _ := findIn(t, file)
	var page int64 // with the only copy of a record
	for _, copies := range all {
		if len(copies) == 1 {
			page = copies[0].Offset &^ (4<<10 - 1)
			break
		}
	}
	d := badDisk{bytes.NewReader(file), page, page + 4<<10}
	lost := 0
	for _, copies := range all {
		if !slices.ContainsFunc(copies, func(c FoundRecord) bool { return c.Offset-8 >= d.to || c.Offset+int64(c.Size) <= d.from }) {
			lost++
		}
	}
	found := make(map[eventstore.Position]bool)
	info, err := FindRecords(t.Context(), d, int64(len(file)), func(int64) {}, func(c FoundRecord) error {
		found[c.Position] = true
		return nil
	})
	if err != nil || info.Unread != d.to-d.from || len(found) != len(all)-lost || lost == 0 {
		t.Errorf("%d bytes unread, %d of %d positions found, %d lost, %v", info.Unread, len(found), len(all), lost, err)
	}
}

func FuzzCarve(f *testing.F) {
	r := eventstore.Stored{
		Position: 7, Sequence: 1, Commit: [16]byte{1}, Body: []byte(`{"a":1}`),
		Stream: eventstore.Stream{Project: "prj_x", Kind: "project", ID: "prj_x"},
	}
	f.Add(record.Append(positionKey(7), &r))
	f.Fuzz(func(t *testing.T, b []byte) {
		last := int64(0)
		_, err := FindRecords(t.Context(), bytes.NewReader(b), int64(len(b)), func(int64) {}, func(c FoundRecord) error {
			if c.Offset < last || c.Offset+int64(c.Size) > int64(len(b)) {
				t.Errorf("%+v behind %d", c, last)
			}
			last = c.Offset + int64(c.Size)
			_, err := ReadFound(bytes.NewReader(b), c)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkCarve searches a log of small records. Most of the time goes into their
// checksums.
func BenchmarkCarve(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log")
	const n = 100_000
	_, err := Build(b.Context(), path, [16]byte{1}, func(yield func(eventstore.Stored, error) bool) {
		for i := range n {
			c := numbered(i)
			c.ID[3] = 1
			c.Record.Stream.ID = strconv.Itoa(i)
			r := eventstore.Stored{
				Position: eventstore.Position(i + 1), Sequence: 1, Commit: c.ID, Stream: c.Record.Stream,
				Body: c.Record.Body[:400],
			}
			if !yield(r, nil) {
				return
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		found := 0
		_, err := FindRecords(b.Context(), bytes.NewReader(file), int64(len(file)), func(int64) {}, func(FoundRecord) error {
			found++
			return nil
		})
		if err != nil || found < n {
			b.Fatal(found, err)
		}
	}
}
