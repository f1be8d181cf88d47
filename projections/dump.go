package projections

import (
	"bufio"
	"context"
	"io"
	"strconv"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// Dump writes what the views hold at one moment, as a line per key in order:
// the view's name, a tab, the key, a tab and the value, both in Go's quoted
// form. It answers the position they stand for. Two engines at one position of
// one log write the same bytes, whatever way they came there.
//
// The views are flushed first and then read from a snapshot of the file. While
// it is held, the file cannot reuse the space of what changes.
func (e *Engine) Dump(ctx context.Context, w io.Writer) (eventstore.Position, error) {
	if err := e.fresh(ctx); err != nil {
		return 0, err
	}
	if err := e.flush(); err != nil {
		return 0, err
	}
	tx, err := e.db.Begin()
	if err != nil {
		return 0, closed(err)
	}
	defer tx.Rollback() //nolint:errcheck // only reads
	var at eventstore.Position
	out := bufio.NewWriter(w)
	err = boltfile.Guard(func() error {
		c, err := readCheckpoint(tx)
		if err != nil {
			return err
		}
		at = c.Position
		for _, v := range e.all {
			cursor := tx.Bucket([]byte(v.bucket())).Cursor()
			for key, raw := cursor.First(); key != nil; key, raw = cursor.Next() {
				if err := ctx.Err(); err != nil {
					return err
				}
				body, err := unseal(v.bucket(), key, raw)
				if err != nil {
					return err
				}
				line := strconv.AppendQuote([]byte(v.bucket()+"\t"), string(key))
				line = strconv.AppendQuote(append(line, '\t'), string(body))
				if _, err := out.Write(append(line, '\n')); err != nil {
					return err
				}
			}
		}
		return out.Flush()
	})
	return at, e.damaged(err)
}
