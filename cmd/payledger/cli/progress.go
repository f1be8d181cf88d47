package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"payledger/eventstore"
)

// Progress returns a function that shows the progress of long work on the log: a bar
// on a terminal, a line every five seconds elsewhere, nothing for quick work.
func Progress(w io.Writer, what string) func(done, total eventstore.Position) {
	return Counting[eventstore.Position](w, what, "events")
}

// Counting is Progress for other units.
func Counting[N ~uint64 | ~int64](w io.Writer, what, unit string) func(done, total N) {
	if !IsTerminal(w) {
		return EachInterval(func(done, total N) {
			fmt.Fprintf(w, "payledger: %s: %d of %d %s\n", what, done, total, unit)
		})
	}
	var bar *progressbar.ProgressBar
	start := time.Now()
	return func(done, total N) {
		if time.Since(start) < time.Second {
			return
		}
		if bar == nil {
			bar = progressbar.NewOptions64(int64(total),
				progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
				progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(unit),
				progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		}
		bar.Set64(int64(done)) //nolint:errcheck // a bar that cannot be drawn does no harm
	}
}

// EachInterval calls say every five seconds of work.
func EachInterval[N any](say func(done, total N)) func(done, total N) {
	said := time.Now()
	return func(done, total N) {
		if now := time.Now(); now.Sub(said) >= 5*time.Second {
			said = now
			say(done, total)
		}
	}
}

// CopyProgress writes to w and shows how much of size bytes is copied, as a number of
// the log's events.
func CopyProgress(w io.Writer, stderr io.Writer, last eventstore.Position, size int64) io.Writer {
	return &copying{w: w, last: last, size: max(size, 1), show: Progress(stderr, "Copying the log")}
}

type copying struct {
	w          io.Writer
	last       eventstore.Position
	done, size int64
	show       func(done, total eventstore.Position)
}

func (c *copying) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.done += int64(n)
	c.show(eventstore.Position(float64(c.last)*float64(c.done)/float64(c.size)), c.last)
	return n, err
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
