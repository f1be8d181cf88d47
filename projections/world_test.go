package projections

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/projections/projectiontest"
	"payledger/projections/table"
)

// TestMain lets properties draw fewer worlds than rapid's default, but for the long
// form of the tests.
func TestMain(m *testing.M) {
	if !drawsMany() {
		_ = flag.Set("rapid.checks", "30") // before flags are parsed
	}
	m.Run()
}

// drawsMany reports whether a property draws so many worlds that one of them surely has
// what is rare: of 30 worlds, in one run of 100 none has.
func drawsMany() bool { return os.Getenv("PAYLEDGER_LONG") != "" }

// world is a log with the states its events lead to, and what the views must
// answer.
type world struct{ *projectiontest.World }

func newWorld(tb testing.TB, intn func(n int) int) *world {
	tb.Helper()
	return &world{projectiontest.New(tb, intn)}
}

func seeded(tb testing.TB, seed uint64) *world {
	tb.Helper()
	return &world{projectiontest.Seeded(tb, seed)}
}

func (w *world) steps(n int) *world {
	w.TB.Helper()
	w.Steps(n)
	return w
}

func pick[T any](w *world, from ...T) T { return projectiontest.Pick(w.World, from...) }

func (w *world) config(dir string) Config {
	return Config{
		Path: filepath.Join(dir, "projections.db"), Store: w.Store, Codec: w.Codec, LogID: w.LogID,
		FlushEvery: time.Hour,
	}
}

// open opens an engine; the test closes it unless it did so before. Its file is
// not synced, since no test cuts the power.
func open(tb testing.TB, c Config) *Engine {
	tb.Helper()
	e, err := Open(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	e.db.DeferSync()
	tb.Cleanup(func() { _ = e.Close() })
	return e
}

// run lets an engine follow the log; the returned function ends that and
// answers what Run answered.
func run(tb testing.TB, e *Engine) (stop func() error) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	var once bool
	var err error
	stop = func() error {
		if !once {
			cancel()
			once, err = true, <-ended
		}
		return err
	}
	tb.Cleanup(func() { _ = stop() })
	return stop
}

// dumped is what an engine's file holds once everything was flushed: a line for
// each key in order, with the table's name, a tab, the key, a tab and the value.
func dumped(tb testing.TB, e *Engine) (string, error) {
	tb.Helper()
	var b bytes.Buffer
	err := e.flush()
	if err == nil {
		err = e.db.View(func(tx *bolt.Tx) error {
			c, err := ReadCheckpoint(tx)
			if err == nil && c.Position != e.Position() {
				tb.Fatalf("the file stands for %d, want %d", c.Position, e.Position())
			}
			if err != nil {
				return err
			}
			for _, name := range e.Tables() {
				err := tx.Bucket([]byte(name)).ForEach(func(key, raw []byte) error {
					n := max(len(raw)-4, 0)
					if !bytes.Equal(sealed(name, key, raw[:n:n]), raw) {
						return table.Damage("table %s, key %x: the checksum is wrong", name, key)
					}
					fmt.Fprintf(&b, "%s\t%q\t%q\n", name, key, raw[:n])
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return b.String(), e.readFailed(err)
}

// sealed is a value with its checksum, as the file's format says.
func sealed(name string, key, value []byte) []byte {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Checksum([]byte(name), castagnoli)
	sum = crc32.Update(crc32.Update(sum, castagnoli, key), castagnoli, value)
	return binary.BigEndian.AppendUint32(value, sum)
}

func dump(tb testing.TB, e *Engine) string {
	tb.Helper()
	_, err := e.Fresh(tb.Context(), eventstore.Filter{})
	must(tb, err)
	out, err := dumped(tb, e)
	must(tb, err)
	return out
}

// rebuilt is what the log leads to when it is folded again.
func (w *world) rebuilt() string {
	w.TB.Helper()
	e := open(w.TB, w.config(w.TB.TempDir()))
	defer e.Close()
	return dump(w.TB, e)
}

// diff fails with the first line by which two dumps differ.
func diff(tb testing.TB, got, want string) {
	tb.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		a, b := "", ""
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			tb.Fatalf("line %d:\n got %s\nwant %s", i+1, a, b)
		}
	}
}
