package process

import (
	"log"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// libraryLog turns lines that libraries write to Go's standard loggers into log
// records: at most maxLibraryText bytes of each line and maxLibraryLines lines a
// second. The next record says how many lines were dropped. Quoted parts of a line
// are data from outside, such as the body of a webhook receiver's answer, and
// are left out too. Go's runtime writes fatal errors and unrecovered
// panics to stderr by itself.
type libraryLog struct {
	log zerolog.Logger
	now func() time.Time

	second int64
	lines  int
	missed int
}

const (
	maxLibraryText  = 4 << 10 // enough for the stack of a panic
	maxLibraryLines = 10
)

// TakeLibraryLogs makes a libraryLog of the process's standard loggers, until
// it is stopped. The default logger of http.Server and http.Transport is one
// of them.
func TakeLibraryLogs(to zerolog.Logger) (stop func() error) {
	structured, flags, plain := slog.Default(), log.Flags(), log.Writer()
	slog.SetDefault(slog.New(zerolog.NewSlogHandler(to)))
	log.SetFlags(0)
	log.SetOutput(&libraryLog{log: to, now: time.Now})
	return func() error {
		slog.SetDefault(structured)
		log.SetFlags(flags)
		log.SetOutput(plain)
		return nil
	}
}

// Write implements io.Writer: package log calls it once for each line, for one at a time.
func (l *libraryLog) Write(line []byte) (int, error) {
	if now := l.now().Unix(); now != l.second {
		l.second, l.lines = now, 0
	}
	if l.lines == maxLibraryLines {
		l.missed++
		return len(line), nil
	}
	l.lines++
	text := withoutQuoted(strings.TrimRight(string(line[:min(len(line), maxLibraryText)]), "\n"))
	level := zerolog.WarnLevel
	if strings.Contains(text, "panic") {
		level = zerolog.ErrorLevel
	}
	record := l.log.WithLevel(level).Str("from", "library")
	if l.missed > 0 {
		record.Int("lines_left_out", l.missed)
		l.missed = 0
	}
	record.Msg(text)
	return len(line), nil
}

// withoutQuoted replaces quoted parts, as %q writes them, by "…".
func withoutQuoted(text string) string {
	var out strings.Builder
	for {
		before, _, found := strings.Cut(text, `"`)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(`"…"`)
		quoted, err := strconv.QuotedPrefix(text[len(before):])
		if err != nil { // never closed
			return out.String()
		}
		text = text[len(before)+len(quoted):]
	}
}
