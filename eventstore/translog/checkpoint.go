package translog

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/eventstore"
)

// MaxCheckpoint is the maximum size in bytes of a signed checkpoint read from
// outside.
const MaxCheckpoint = 64 << 10

// Checkpoint is the state of a log up to a position.
type Checkpoint struct {
	Origin string              // of the log
	Size   eventstore.Position // of the last event it covers, 0 for an empty log
	Root   tlog.Hash
}

// text is the text of the signed note.
func (c Checkpoint) text() []byte {
	return fmt.Appendf(nil, "%s\n%d\n%s\n", c.Origin, c.Size, c.Root)
}

// parseCheckpoint reads a note's text. Lines beyond the third are extensions,
// which other logs may have and this one does not; the signature covers them.
func parseCheckpoint(text string) (Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || lines[0] == "" || lines[len(lines)-1] != "" {
		return Checkpoint{}, errors.New("not a checkpoint: want the lines origin, size and root hash")
	}
	size, err := strconv.ParseUint(lines[1], 10, 63)
	if err != nil || strconv.FormatUint(size, 10) != lines[1] {
		return Checkpoint{}, errors.New("not a checkpoint: the second line is not a size")
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return Checkpoint{}, errors.New("not a checkpoint: the third line is not a hash in base64")
	}
	return Checkpoint{lines[0], eventstore.Position(size), tlog.Hash(root)}, nil
}
