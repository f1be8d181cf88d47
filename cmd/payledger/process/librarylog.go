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
// second. Quoted parts of a line
// are data from outside, such as the body of a webhook receiver's answer, and
// are left out too. Go's runtime writes fatal errors and unrecovered
// panics to stderr by itself.
type libraryLog struct{ log zerolog.Logger }

func newLibraryLog(to zerolog.Logger) libraryLog {
	return libraryLog{to.Sample(&zerolog.BurstSampler{Burst: maxLibraryLines, Period: time.Second})}
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
	log.SetOutput(newLibraryLog(to))
	return func() error {
		slog.SetDefault(structured)
		log.SetFlags(flags)
		log.SetOutput(plain)
		return nil
	}
}

// Write implements io.Writer: package log calls it once for each line, for one at a time.
func (l libraryLog) Write(line []byte) (int, error) {
	text := withoutQuoted(strings.TrimRight(string(line[:min(len(line), maxLibraryText)]), "\n"))
	level := zerolog.WarnLevel
	if strings.Contains(text, "panic") {
		level = zerolog.ErrorLevel
	}
	l.log.WithLevel(level).Str("from", "library").Msg(text)
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
