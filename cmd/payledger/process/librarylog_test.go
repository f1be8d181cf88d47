package process

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func TestLibraryLogIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newLibraryLog(zerolog.New(&out))
		write := func(line string) string {
			out.Reset()
			if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
				t.Error(n, err)
			}
			return out.String()
		}
		for line, want := range map[string]string{
			"http: Accept error: too many open files; retrying in 5ms\n": `{"level":"warn","from":"library","message":"http: Accept error: too many open files; retrying in 5ms"}`,
			`starting with "HTTP/1.1 \"200\" sk_secret"; err=<nil>`:      `{"level":"warn","from":"library","message":"starting with \"…\"; err=<nil>"}`,
			`one "two" three "four`: `{"level":"warn","from":"library","message":"one \"…\" three \"…\""}`,
			"http: panic serving 192.0.2.7:1: x\ngoroutine 7 [running]:": `{"level":"error","from":"library","message":"http: panic serving 192.0.2.7:1: x\ngoroutine 7 [running]:"}`,
		} {
			if got := strings.TrimSpace(write(line)); got != want {
				t.Errorf("%s\ngot  %s\nwant %s", line, got, want)
			}
		}
		if got := write(strings.Repeat("x", 1<<20)); len(got) > maxLibraryText+100 {
			t.Errorf("%d bytes", len(got))
		}
		written := 0
		for range 100 {
			if write("x") != "" {
				written++
			}
		}
		if written > maxLibraryLines {
			t.Errorf("%d lines in a second", written)
		}
		time.Sleep(time.Second)
		if write("x") == "" {
			t.Error("nothing is written in the next second")
		}
	})
}
