package translog

import (
	"errors"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
)

// TileHeight is the height of tiles: 256 hashes make a full one.
const TileHeight = 8

// maxTileLevel is that of the one tile above all others a log can have.
const maxTileLevel = 7

// ErrNoTile: the path names no tile of the tree.
var ErrNoTile = errors.New("the tree has no such tile")

// ParseTile reads a path tile/<L>/<N>[.p/<W>]. There is one spelling of each
// tile; the error for any other is ErrNoTile.
func ParseTile(path string) (tlog.Tile, error) {
	rest, ok := strings.CutPrefix(path, "tile/")
	if !ok {
		return tlog.Tile{}, ErrNoTile
	}
	t, err := tlog.ParseTilePath("tile/8/" + rest)
	if err != nil || t.L < 0 || t.L > maxTileLevel {
		return tlog.Tile{}, ErrNoTile
	}
	return t, nil
}

// ReadTile renders a tile of the tree of this size from its stored hashes:
// W hashes, one after the other. A width less than what there is may be asked
// for at any time. The error is ErrNoTile when the tree does not reach so far.
func ReadTile(t tlog.Tile, size eventstore.Position, r tlog.HashReader) ([]byte, error) {
	if t.H != TileHeight || t.L < 0 || t.L > maxTileLevel || t.W < 1 || t.W > 1<<TileHeight || t.N < 0 {
		return nil, ErrNoTile
	}
	there := int64(size>>(TileHeight*t.L)) - int64(t.W)
	if there < 0 || t.N > there>>TileHeight {
		return nil, ErrNoTile
	}
	return tlog.ReadTileData(t, r)
}
