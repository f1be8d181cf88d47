package translog

import (
	"errors"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
)

// TileHeight is the height of tiles: a full one has 256 hashes.
const TileHeight = 8

// maxTileLevel is the highest tile level of the largest possible log.
const maxTileLevel = 7

// ErrNoTile: the tree has no tile with this path.
var ErrNoTile = errors.New("the tree has no such tile")

// ParseTile reads a path tile/<L>/<N>[.p/<W>]. Each tile has one valid path; the
// error for any other is ErrNoTile.
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

// ReadTile returns a tile of the tree of this size from its stored hashes: W
// hashes, one after the other. W may be less than the number of hashes that the
// tile has now. The error is ErrNoTile when the tree has fewer.
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
