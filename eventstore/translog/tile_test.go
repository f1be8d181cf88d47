package translog_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
	"payledger/eventstore/translog"
)

func TestTilePaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]tlog.Tile{
		"tile/0/000":                 {H: 8, L: 0, N: 0, W: 256},
		"tile/0/x001/x234/067":       {H: 8, L: 0, N: 1234067, W: 256},
		"tile/0/x001/x234/067.p/5":   {H: 8, L: 0, N: 1234067, W: 5},
		"tile/3/000.p/255":           {H: 8, L: 3, N: 0, W: 255},
		"tile/7/000.p/1":             {H: 8, L: 7, N: 0, W: 1},
		"tile/0/x999/x999/x999/x999": {},
		"tile/0/273.p/0":             {},
		"tile/0/273.p/256":           {},
		"tile/0/273.p/01":            {},
		"tile/00/273":                {},
		"tile/0/1":                   {},
		"tile/0/x000/001":            {},
		"tile/-1/000":                {},
		"tile/64/000":                {},
		"tile/8/000":                 {},
		"tile/99999999999999/000":    {},
		"tile/data/000":              {},
		"tile/entries/000":           {},
		"tile/0/x999/x999/x999/x999/x999/x999/x999/999": {},
		"tile/0/": {}, "tile/0": {}, "tile/": {}, "tile": {}, "": {}, "/tile/0/000": {}, "tile/0/000/": {},
	} {
		got, err := translog.ParseTile(path)
		if want == (tlog.Tile{}) {
			if !errors.Is(err, translog.ErrNoTile) {
				t.Errorf("%q: got %+v, %v, want ErrNoTile", path, got, err)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v, want %+v", path, got, err, want)
		}
		if tilePath(want) != path {
			t.Errorf("%+v is at %q, want %q", want, tilePath(want), path)
		}
	}
}

// TestTilesOfATree takes the example of the tlog-tiles specification: 70,000
// events have exactly these tiles.
func TestTilesOfATree(t *testing.T) {
	t.Parallel()
	const n = 70_000
	s := tree(t, n)
	for path, there := range map[string]bool{
		"tile/0/272": true, "tile/0/273.p/112": true, "tile/1/000": true, "tile/1/001.p/17": true, "tile/2/000.p/1": true,
		"tile/0/273": false, "tile/0/273.p/113": false, "tile/0/274.p/1": false, "tile/1/001.p/18": false, "tile/1/002.p/1": false,
		"tile/2/000.p/2": false, "tile/2/000": false, "tile/3/000.p/1": false, "tile/7/000.p/1": false,
		"tile/0/x999/x999/x999/x999/x999/999": false, "tile/0/100.p/9": true,
	} {
		tile, err := translog.ParseTile(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := translog.ReadTile(tile, n, s)
		if there && (err != nil || len(b) != 32*tile.W) || !there && !errors.Is(err, translog.ErrNoTile) {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
	// tlog's own reader of tiles authenticates each against the root.
	reader := tlog.TileHashReader(tlog.Tree{N: n, Hash: rootAt(t, n, s)}, tiles{n, s})
	for _, leaf := range []int64{0, 255, 256, 65_535, 65_536, 69_999} {
		hashes, err := reader.ReadHashes([]int64{tlog.StoredHashIndex(0, leaf)})
		if err != nil || hashes[0] != translog.Leaf(event(int(leaf))) {
			t.Errorf("leaf %d by tiles: %v, %v", leaf, hashes, err)
		}
	}
	forged := tlog.TileHashReader(tlog.Tree{N: n, Hash: rootAt(t, n-1, s)}, tiles{n, s})
	if _, err := forged.ReadHashes([]int64{0}); err == nil {
		t.Error("the tiles pass for another root")
	}
}

// tilePath is what ParseTile reads.
func tilePath(t tlog.Tile) string {
	t.H = translog.TileHeight
	return "tile/" + strings.TrimPrefix(t.Path(), "tile/8/")
}

// tiles reads a tree as tlog's client asks for it.
type tiles struct {
	size eventstore.Position
	from tlog.HashReader
}

func (tiles) Height() int { return translog.TileHeight }

func (r tiles) ReadTiles(wanted []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(wanted))
	for i, w := range wanted {
		parsed, err := translog.ParseTile(tilePath(w))
		if err != nil {
			return nil, err
		}
		if out[i], err = translog.ReadTile(parsed, r.size, r.from); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func BenchmarkAppend(b *testing.B) {
	body := make([]byte, 450)
	var e translog.Edge
	var scratch []tlog.Hash
	for range b.N {
		scratch = e.Append(scratch[:0], translog.Leaf(body))
	}
}
