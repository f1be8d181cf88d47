package process

import (
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
)

// closeTime is how long everything except requests may take to stop: workers,
// deliveries, NATS and the files, in this order.
const closeTime = 15 * time.Second

// lastLineTime is how long the last log record may take: the log's reader may be
// the part that hangs.
const lastLineTime = time.Second

// Shutdown are parts whose stop has a bound: when the time for requests plus closeTime have passed
// since the process was asked to stop or a part failed, the process ends with cli.ExitFailed, even
// if a part hangs. Everything answered is on disk by then, so nothing is lost.
type Shutdown struct {
	*Parts
	after time.Duration
	log   zerolog.Logger
	exit  func(code int)

	once  sync.Once
	bound *time.Timer
}

// NewShutdown is a shutdown of nothing yet. Requests may take so long to end.
func NewShutdown(requests time.Duration, log zerolog.Logger) *Shutdown {
	return &Shutdown{Parts: NewParts(), after: max(requests, 0) + closeTime, log: log, exit: os.Exit}
}

// Begin sets the bound, which holds until all parts have stopped.
func (s *Shutdown) Begin() {
	s.once.Do(func() { s.bound = time.AfterFunc(s.after, s.cut) })
}

// Stop stops the parts.
func (s *Shutdown) Stop() error {
	s.Begin()
	defer s.bound.Stop()
	return s.Parts.Stop()
}

// cut ends the process.
func (s *Shutdown) cut() {
	hangs := "the start"
	if name := s.current.Load(); name != nil {
		hangs = *name
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		s.log.Error().Str("waited_for", hangs).Stringer("after", s.after).
			Msg("the shutdown takes too long: the process ends without it; nothing that was answered is lost. If it happens again, raise --shutdown-timeout or see what hangs")
	}()
	select {
	case <-said:
	case <-time.After(lastLineTime):
	}
	s.exit(cli.ExitFailed)
}
