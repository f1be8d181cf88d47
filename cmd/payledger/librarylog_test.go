package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestEveryLineOfTheLogIsJSON provokes what Go's HTTP client and server say by
// themselves, and an end that fails.
func TestEveryLineOfTheLogIsJSON(t *testing.T) {
	t.Parallel()
	talkative := listenTalkative(t)
	s := start(t, "demo", "--log-level=debug", "--log-format=json", "--shutdown-timeout=1ms", "--webhook-url="+talkative)
	s.paid(t)
	eventually(t, "a record of an answer that nobody asked for", func() bool {
		return strings.Contains(s.stderr.String(), "Unsolicited response")
	})
	c, err := net.Dial("tcp", strings.TrimPrefix(s.BaseURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// A request under way, which is cut off: the server waits for its body.
	fmt.Fprintf(c, "POST /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s:%s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n", s.ProjectID, s.APIKey)
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
		t.Fatalf("the server does not ask for the body: %q, %v", line, err)
	}
	if code := s.stop(); code != exitFailed || !strings.Contains(s.stderr.String(), "requests were cut off") {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(s.stderr.String()) {
		var record struct{ Level, Time, Message string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Level == "" || record.Time == "" {
			t.Errorf("%v: %s", err, line)
		}
		if strings.Contains(line, talk) || len(line) > 2*maxLibraryText {
			t.Errorf("the line shows what a receiver sent: %s", line)
		}
	}
}

const talk = "whatever-a-receiver-sends"

// listenTalkative is a webhook receiver that answers once more than it was
// asked.
func listenTalkative(t *testing.T) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					fmt.Fprint(c, "HTTP/1.1 204 No Content\r\n\r\n")
					_, _ = in.Discard(int(r.ContentLength))
					time.Sleep(20 * time.Millisecond) // until the connection is idle
					fmt.Fprintf(c, "HTTP/1.1 200 %s\r\n\"%[1]s\r\n\r\n", talk)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/"
}

func TestLibraryLogIsBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.UnixMilli(0)
	l := &libraryLog{log: zerolog.New(&out), now: func() time.Time { return now }}
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
	now = now.Add(time.Second)
	if got := write("x"); !strings.Contains(got, `"lines_left_out":95`) {
		t.Error(got)
	}
}
