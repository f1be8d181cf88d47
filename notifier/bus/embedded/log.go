package embedded

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// serverLog passes the NATS server's log on. The server's notices are debug records here: the
// Server itself logs what matters to the operator. A fatal record does not end the process; it is
// the reason why a start failed.
type serverLog struct {
	log     zerolog.Logger
	ofConns zerolog.Logger // errors of single connections, some of them left out

	mu    sync.Mutex
	fatal error
}

// Of errors of single connections, which clients can cause at will, at most
// connErrors are logged in each connErrorsIn.
const (
	connErrors   = 10
	connErrorsIn = 10 * time.Second
)

func newServerLog(log zerolog.Logger) *serverLog {
	return &serverLog{log: log, ofConns: log.Sample(&zerolog.BurstSampler{Burst: connErrors, Period: connErrorsIn})}
}

func (l *serverLog) write(level zerolog.Level, format string, v []any) {
	l.log.WithLevel(level).Msg(strings.TrimSpace(fmt.Sprintf(format, v...)))
}

func (l *serverLog) Noticef(format string, v ...any) { l.write(zerolog.DebugLevel, format, v) }
func (l *serverLog) Debugf(format string, v ...any)  { l.write(zerolog.DebugLevel, format, v) }
func (l *serverLog) Tracef(format string, v ...any)  { l.write(zerolog.TraceLevel, format, v) }

// Errorf recognises a record about a connection by its beginning.
func (l *serverLog) Errorf(format string, v ...any) {
	if strings.Contains(format, " - cid:") || strings.Contains(format, " - rid:") {
		l.ofConns.Error().Msg(strings.TrimSpace(fmt.Sprintf(format, v...)))
		return
	}
	l.write(zerolog.ErrorLevel, format, v)
}

// Warnf drops the advice to hash passwords: ours are random and long, and
// live in memory and in a file only its owner can read.
func (l *serverLog) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Plaintext passwords detected") {
		return
	}
	l.write(zerolog.WarnLevel, format, v)
}

func (l *serverLog) Fatalf(format string, v ...any) {
	l.write(zerolog.ErrorLevel, format, v)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatal = fmt.Errorf("starting the embedded NATS server: "+format, v...)
	if strings.HasPrefix(format, "Can't start JetStream") {
		l.fatal = &storageError{l.fatal}
	}
}

func (l *serverLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}
