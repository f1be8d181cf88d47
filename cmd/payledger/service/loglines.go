package service

import (
	"io"
	"runtime"
	"sync"

	"github.com/rs/zerolog"
)

// logLines writes log records in the order in which they come. Between start
// and stop those of level info and below are written as soon as nobody else has
// work to do, so that a busy server does not pay a system call for each
// request; a warning or an error is written, with all before it, before the
// call returns. Safe for concurrent use.
type logLines struct {
	to   io.Writer
	wake chan struct{} // of capacity 1: there is something to write
	quit chan struct{} // closed by stop
	done chan struct{} // closed when nothing is written any more behind the back of who logs

	mu      sync.Mutex
	running bool
	waiting []byte

	writing sync.Mutex // one at a time, in order; taken before mu
	spare   []byte     // what waiting will use next
}

// mostWaiting is how many bytes wait at most: who logs beyond that waits for
// who reads.
const mostWaiting = 64 << 10

func NewLogLines(to io.Writer) *logLines {
	return &logLines{to: to, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// Write implements io.Writer.
func (l *logLines) Write(record []byte) (int, error) { return l.WriteLevel(zerolog.NoLevel, record) }

// WriteLevel implements zerolog.LevelWriter.
func (l *logLines) WriteLevel(level zerolog.Level, record []byte) (int, error) {
	l.mu.Lock()
	l.waiting = append(l.waiting, record...)
	soon := l.running && level <= zerolog.InfoLevel && len(l.waiting) < mostWaiting
	l.mu.Unlock()
	if !soon {
		return len(record), l.flush()
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return len(record), nil
}

func (l *logLines) flush() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	lines := l.waiting
	l.waiting = l.spare[:0]
	l.mu.Unlock()
	l.spare = lines
	if len(lines) == 0 {
		return nil
	}
	_, err := l.to.Write(lines)
	return err
}

// start lets records wait, until stop.
func (l *logLines) start() {
	l.mu.Lock()
	l.running = true
	l.mu.Unlock()
	go func() {
		defer close(l.done)
		for {
			select {
			case <-l.wake:
				runtime.Gosched() // those go first who are about to log
				_ = l.flush()     // nobody is left to tell
			case <-l.quit:
				return
			}
		}
	}()
}

// stop writes what waits. What is logged later is written at once.
func (l *logLines) stop() error {
	l.mu.Lock()
	l.running = false
	l.mu.Unlock()
	close(l.quit)
	<-l.done
	return l.flush()
}
