package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"payledger/cmd/payledger/cli"
)

// TestEveryLineOfTheLogIsJSON provokes log lines of Go's HTTP client and server, and
// a failing end.
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
	// A request under way that is cut off: the server waits for its body.
	fmt.Fprintf(c, "POST /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s:%s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n", s.ProjectID, s.APIKey)
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
		t.Fatalf("the server does not ask for the body: %q, %v", line, err)
	}
	if code := s.stop(); code != cli.ExitFailed || !strings.Contains(s.stderr.String(), "requests were cut off") {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(s.stderr.String()) {
		var record struct{ Level, Time, Message string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Level == "" || record.Time == "" {
			t.Errorf("%v: %s", err, line)
		}
		if strings.Contains(line, talk) || len(line) > 8<<10 {
			t.Errorf("the line shows what a receiver sent: %s", line)
		}
	}
}

const talk = "whatever-a-receiver-sends"

// listenTalkative is a webhook receiver that sends one answer too many.
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

// TestLogTimes: records that came in one second can be told apart.
func TestLogTimes(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"json":    `(?m)"time":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)","message":"ready"`,
		"console": `(?m)^\d\d:\d\d:\d\d\.\d{3} INF ready`,
	} {
		s := start(t, "demo", "--log-level", "info", "--log-format", format)
		pattern := regexp.MustCompile(want)
		eventually(t, "a record with milliseconds, as "+format, func() bool { return pattern.MatchString(s.stderr.String()) })
	}
}
