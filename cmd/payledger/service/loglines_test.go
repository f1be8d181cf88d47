package service

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"
)

// slowLog is an output whose reader takes his time: each write waits for go.
type slowLog struct {
	mu    sync.Mutex
	text  strings.Builder
	calls int
	next  chan struct{} // nil: at once
}

func (s *slowLog) Write(b []byte) (int, error) {
	if s.next != nil {
		<-s.next
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.text.Write(b)
}

func (s *slowLog) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestLogLinesAreWrittenInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &slowLog{next: make(chan struct{})}
		l := NewLogLines(out)
		log := zerolog.New(l)
		l.start()
		var want []string
		for i := range 5 {
			log.Info().Int("n", i).Send()
			want = append(want, fmt.Sprintf(`{"level":"info","n":%d}`, i))
			synctest.Wait()
		}
		out.next <- struct{}{} // the first, and what came meanwhile
		out.next <- struct{}{}
		synctest.Wait()
		if got := strings.Fields(out.String()); !slices.Equal(got, want) || out.calls != 2 {
			t.Errorf("in %d writes: %q", out.calls, got)
		}
		close(out.next)
		if err := l.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestLogLinesWaitForNothingGrave(t *testing.T) {
	t.Parallel()
	out := new(slowLog)
	l := NewLogLines(out)
	log := zerolog.New(l)
	log.Info().Msg("before the start")
	if !strings.Contains(out.String(), "before the start") {
		t.Error("a record before the start waits")
	}
	l.start()
	for _, level := range []zerolog.Level{zerolog.WarnLevel, zerolog.ErrorLevel} {
		log.Info().Msgf("before %s", level)
		log.WithLevel(level).Send()
		if got := out.String(); !strings.Contains(got, "before "+level.String()) || !strings.HasSuffix(got, fmt.Sprintf("{\"level\":%q}\n", level)) {
			t.Errorf("%s waits: %s", level, got)
		}
	}
	log.Info().Msg("at the end")
	if err := l.stop(); err != nil || !strings.Contains(out.String(), "at the end") {
		t.Errorf("stop left a record behind: %v", err)
	}
	log.Info().Msg("after the end")
	if !strings.Contains(out.String(), "after the end") {
		t.Error("a record after the end is lost")
	}
}

// Who logs faster than the output is read waits, and nothing is lost.
func TestLogLinesAreBounded(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 200
	out := new(slowLog)
	l := NewLogLines(out)
	log := zerolog.New(l)
	l.start()
	text := strings.Repeat("x", 1000)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				log.Info().Int("w", w).Int("i", i).Msg(text)
			}
		})
	}
	all.Wait()
	if err := l.stop(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.String(), text+"\"}\n"); n != workers*each {
		t.Errorf("%d records of %d", n, workers*each)
	}
	if got := max(cap(l.waiting), cap(l.spare)); got > 4*mostWaiting {
		t.Errorf("%d bytes waited", got)
	}
}
