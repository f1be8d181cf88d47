package process

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
)

// TestShutdownIsBounded lets a part hang: the process ends all the same, and
// says which one it was.
func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out  func(io.Writer, chan struct{}) io.Writer
		says string
		late time.Duration
	}{
		"somebody reads the log": {func(w io.Writer, _ chan struct{}) io.Writer { return w }, `"waited_for":"the second part"`, 0},
		"nobody reads the log":   {func(_ io.Writer, never chan struct{}) io.Writer { return stuck(never) }, "", lastLineTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				never := make(chan struct{})
				var log bytes.Buffer
				s := NewShutdown(7*time.Second, zerolog.New(c.out(&log, never)))
				ended := make(chan int, 1)
				s.exit = func(code int) { ended <- code }
				var stopped []string
				s.Add("the first part", Part{Stop: func() error { stopped = append(stopped, "first"); return nil }})
				s.Add("the second part", Part{Stop: func() error { <-never; stopped = append(stopped, "second"); return errors.New("late") }})
				s.Add("the third part", Part{Stop: func() error { stopped = append(stopped, "third"); return nil }})
				began := time.Now()
				s.Begin()
				time.Sleep(time.Second) // the bound counts from the first request to end
				done := make(chan error, 1)
				go func() { done <- s.Stop() }()
				if code := <-ended; code != cli.ExitFailed || time.Since(began) != 7*time.Second+closeTime+c.late {
					t.Errorf("exit code %d after %v", code, time.Since(began))
				}
				if !strings.Contains(log.String(), c.says) {
					t.Errorf("logged %q, want %s", log.String(), c.says)
				}
				close(never)
				if err := <-done; err == nil || !slices.Equal(stopped, []string{"third", "second", "first"}) {
					t.Errorf("stopped %v: %v", stopped, err)
				}
			})
		})
	}
}

// stuck is a writer that nobody reads from until the channel is closed.
type stuck chan struct{}

func (s stuck) Write(b []byte) (int, error) { <-s; return len(b), nil }
