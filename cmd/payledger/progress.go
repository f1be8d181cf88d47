package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"payledger/eventstore"
)

// newProgress answers a function that shows how far long work on the log has
// come: a bar on a terminal, a line every five seconds elsewhere, nothing for
// work that is done within a moment.
func newProgress(w io.Writer, what string) func(done, total eventstore.Position) {
	if !isTerminal(w) {
		return eachInterval(func(done, total eventstore.Position) {
			fmt.Fprintf(w, "payledger: %s: %d of %d events\n", what, done, total)
		})
	}
	var bar *progressbar.ProgressBar
	start := time.Now()
	return func(done, total eventstore.Position) {
		if time.Since(start) < time.Second {
			return
		}
		if bar == nil {
			bar = progressbar.NewOptions64(int64(total),
				progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
				progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("events"),
				progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		}
		bar.Set64(int64(done)) //nolint:errcheck // a bar that cannot be drawn harms nobody
	}
}

// eachInterval calls say every five seconds of work.
func eachInterval(say func(done, total eventstore.Position)) func(done, total eventstore.Position) {
	said := time.Now()
	return func(done, total eventstore.Position) {
		if now := time.Now(); now.Sub(said) >= 5*time.Second {
			said = now
			say(done, total)
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
