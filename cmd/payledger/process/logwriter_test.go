package process

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// counted counts the calls of Write.
type counted struct {
	bytes.Buffer
	calls int
}

func (c *counted) Write(b []byte) (int, error) {
	c.calls++
	return c.Buffer.Write(b)
}

func TestLogRecordsAreWrittenTogetherAndInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out counted
		records := NewLogWriter(&out)
		log := zerolog.New(records)
		want := func(calls int, text string) {
			t.Helper()
			synctest.Wait()
			records.mu.Lock()
			defer records.mu.Unlock()
			if out.calls != calls || out.String() != text {
				t.Errorf("%d writes of\n%s, want %d of\n%s", out.calls, out.String(), calls, text)
			}
		}
		const one, two, three = "{\"level\":\"info\",\"n\":1}\n", "{\"level\":\"debug\",\"n\":2}\n", "{\"level\":\"warn\",\"n\":3}\n"
		log.Info().Int("n", 1).Send()
		log.Debug().Int("n", 2).Send()
		want(0, "")
		time.Sleep(logDelay)
		want(1, one+two)
		log.Info().Int("n", 1).Send()
		log.Warn().Int("n", 3).Send()
		want(2, one+two+one+three)
		log.Info().Int("n", 1).Send()
		if err := records.Flush(); err != nil {
			t.Error(err)
		}
		want(3, one+two+one+three+one)
		time.Sleep(time.Minute)
		want(3, one+two+one+three+one)
		for n := 0; n < maxWaiting; n += len(one) {
			log.Info().Int("n", 1).Send()
		}
		records.mu.Lock()
		defer records.mu.Unlock()
		if out.calls != 4 {
			t.Errorf("%d writes", out.calls)
		}
	})
}
