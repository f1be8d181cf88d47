package service

import (
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/exit"
)

// closeTime is how long everything but requests under way may take to stop:
// workers, deliveries, NATS and the files, in order.
const closeTime = 15 * time.Second

// savingPause is how often it is looked whether a log that lost its file is
// saved.
const savingPause = 100 * time.Millisecond

// lastLineTime is how long the last log record may take: whoever reads the log
// may be what hangs.
const lastLineTime = time.Second

// shutdown stops the parts of a service in the reverse order of their start.
// It has a bound that nothing exceeds: when the time for requests and closeTime
// have passed since the process was asked to stop, or a part failed, it ends
// with exitFailed whatever still hangs, but for a log that lost its file and is
// being saved. What was answered is on the disk by
// then, so this loses no more than a crash does: nothing.
type shutdown struct {
	after time.Duration
	log   zerolog.Logger
	exit  func(code int)

	saving  atomic.Pointer[func() bool] // as long as it answers true, ending the process would lose events
	parts   []part
	current atomic.Pointer[string] // the part that is being stopped
	once    sync.Once
	bound   *time.Timer
}

type part struct {
	name string
	stop func() error
}

func newShutdown(requests time.Duration, log zerolog.Logger) *shutdown {
	return &shutdown{after: max(requests, 0) + closeTime, log: log, exit: os.Exit}
}

// started notes how to stop a part.
func (s *shutdown) started(name string, stop func() error) {
	s.parts = append(s.parts, part{name, stop})
}

// begin sets the bound, which holds until all parts have stopped.
func (s *shutdown) begin() {
	s.once.Do(func() { s.bound = time.AfterFunc(s.after, s.cut) })
}

// stop stops the parts.
func (s *shutdown) stop() (err error) {
	s.begin()
	defer s.bound.Stop()
	for _, p := range slices.Backward(s.parts) {
		s.current.Store(&p.name)
		err = errors.Join(err, p.stop())
	}
	return err
}

// cut ends the process.
func (s *shutdown) cut() {
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
	for saving := s.saving.Load(); saving != nil && (*saving)(); {
		<-time.After(savingPause)
	}
	s.exit(exit.Failed)
}
