package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"payledger/notifier/health/healthtest"
)

// feed opens GET /v1/events as a stream.
func (s *server) feed(t *testing.T, lastEventID string) (*bufio.Scanner, func()) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.BaseURL+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.ProjectID+":"+s.APIKey)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", lastEventID)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 {
		t.Fatalf("status %d", resp.StatusCode)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return lines, func() { resp.Body.Close() }
}

// nextEvent returns the id and the data of the next event, nothing at the end.
func nextEvent(lines *bufio.Scanner) (id, data string) {
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "id":
			id = value
		case name == "data":
			data = value
		case name == "" && id != "":
			return id, data
		}
	}
	return "", ""
}

// TestFeedAcrossRestarts reads the feed across kills and stops of the server, each
// time from the last event it saw.
func TestFeedAcrossRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/data"
	s := start(t, "demo", "--data", dir)
	var got []string
	last := "0"
	for round := range 3 {
		s.paid(t)
		lines, leave := s.feed(t, last)
		id, data := nextEvent(lines) // of the two events there are; the other comes in the next round
		if id == "" {
			t.Fatal("the stream ended")
		}
		last, got = id, append(got, data)
		leave()
		if round%2 == 0 {
			s.kill()
		} else if code := s.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		s = start(t, "demo", "--data", dir)
	}
	rest := s.do(t, 200, "GET", "/v1/events?after="+last, "").Body
	got = append(got, strings.Split(strings.TrimSpace(string(rest)), "\n")...)
	all := strings.Split(strings.TrimSpace(string(s.do(t, 200, "GET", "/v1/events", "").Body)), "\n")
	if len(all) != 6 || fmt.Sprint(got) != fmt.Sprint(all) {
		t.Errorf("read in parts\n%s\nat once\n%s", strings.Join(got, "\n"), strings.Join(all, "\n"))
	}
}

// TestOpenStreamsDoNotHoldUpTheEnd stops a server with an open feed, one whose
// client does not read, and a tail over the admin socket.
func TestOpenStreamsDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	s := start(t, "demo", "--shutdown-timeout=1h") // longer than the test waits for the end
	s.paid(t)
	lines, leave := s.feed(t, "0")
	defer leave()
	nextEvent(lines)

	conn, err := net.Dial("tcp", strings.TrimPrefix(s.BaseURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s:%s\r\nAccept: text/event-stream\r\n\r\n", s.ProjectID, s.APIKey)

	tail := exec.CommandContext(t.Context(), "payledger", "events", "tail", "--follow", "--data", s.Data)
	out := &healthtest.Buffer{}
	tail.Stdout, tail.Stderr = out, out
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tail shows events", func() bool { return strings.Contains(out.String(), "payment.paid") })

	s.stops(t)
	for {
		if id, _ := nextEvent(lines); id == "" {
			break
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream was cut off: %v", err)
	}
	if err := tail.Wait(); err != nil {
		t.Errorf("the tail: %v\n%s", err, out)
	}
}
