package process

import (
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// LogWriter writes log records in the order in which they come. Records of level
// info and below wait up to logDelay for others, so that a busy server does not
// pay a system call for each request. A warning or an error is written, with all
// before it, before the call returns. Safe for concurrent use.
type LogWriter struct {
	to io.Writer

	mu      sync.Mutex
	waiting []byte
	timer   *time.Timer // runs while records wait
}

const (
	logDelay   = 5 * time.Millisecond
	maxWaiting = 64 << 10 // bytes; beyond it a log call blocks until the buffer is written
)

// NewLogWriter writes to to.
func NewLogWriter(to io.Writer) *LogWriter {
	l := &LogWriter{to: to}
	l.timer = time.AfterFunc(time.Hour, func() { _ = l.Flush() }) // an error cannot be reported anywhere
	l.timer.Stop()
	return l
}

// Write implements io.Writer.
func (l *LogWriter) Write(record []byte) (int, error) { return l.WriteLevel(zerolog.NoLevel, record) }

// WriteLevel implements zerolog.LevelWriter.
func (l *LogWriter) WriteLevel(level zerolog.Level, record []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.timer.Reset(logDelay)
	}
	l.waiting = append(l.waiting, record...)
	if level <= zerolog.InfoLevel && len(l.waiting) < maxWaiting {
		return len(record), nil
	}
	return len(record), l.write()
}

// Flush writes what waits.
func (l *LogWriter) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write()
}

func (l *LogWriter) write() error {
	l.timer.Stop()
	if len(l.waiting) == 0 {
		return nil
	}
	_, err := l.to.Write(l.waiting)
	l.waiting = l.waiting[:0]
	return err
}
