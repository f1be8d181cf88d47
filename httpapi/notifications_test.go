package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"payledger/domain"
)

// judge is the connector of the routes "cards" and "wallets". It accepts notifications signed with
// "ours".
type judge struct {
	mu     sync.Mutex
	took   [][]byte
	hold   chan struct{} // nil: it answers at once
	waits  int
	refuse error
}

func (j *judge) Takes(route string) bool { return route == "cards" || route == "wallets" }

func (j *judge) Notify(ctx context.Context, _ string, header http.Header, body []byte) error {
	j.mu.Lock()
	j.took = append(j.took, bytes.Clone(body))
	refuse, hold := j.refuse, j.hold
	j.waits++
	j.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch {
	case refuse != nil:
		return refuse
	case header.Get("X-Signed") != "ours":
		return &domain.Refusal{Code: domain.NotificationForged}
	}
	return nil
}

func (j *judge) judged() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.waits
}

// notice makes a request for the route "cards" from this address.
func notice(from string, body io.Reader, header ...string) *http.Request {
	return noticeFor("cards", from, body, header...)
}

func noticeFor(route, from string, body io.Reader, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/connectors/"+route, body)
	r.RemoteAddr = from
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestNotificationsAreJudged(t *testing.T) {
	t.Parallel()
	j := new(judge)
	s := start(t, func(c *settings) { c.Connectors = j })
	body := strings.Repeat("x", maxNotification)
	for _, c := range []struct {
		name, path, body, signed, media string
		refuse                          error
		status                          int
		code                            domain.Code
	}{
		{name: "signed", body: "{}", signed: "ours", media: "application/json", status: 200},
		{name: "no type", body: "a=b", signed: "ours", status: 200},
		{name: "empty", signed: "ours", media: "text/plain", status: 200},
		{name: "the longest", body: body, signed: "ours", media: "application/json", status: 200},
		{name: "one byte more", body: body + "x", signed: "ours", media: "application/json", status: 413, code: domain.BodyTooLarge},
		{name: "unsigned", body: "{}", media: "application/json", status: 401, code: domain.NotificationForged},
		{name: "malformed", body: "{", signed: "ours", refuse: &domain.Refusal{Code: domain.NotificationMalformed}, status: 400, code: domain.NotificationMalformed},
		{name: "gone since", body: "{}", signed: "ours", refuse: &domain.Refusal{Code: domain.RouteNotFound}, status: 404, code: domain.RouteNotFound},
		{name: "not now", body: "{}", signed: "ours", refuse: errors.New("the provider is away"), status: 503, code: domain.Unavailable},
		{name: "too slow", body: "{}", signed: "ours", refuse: context.DeadlineExceeded, status: 503, code: domain.Unavailable},
		{name: "another route", path: "/connectors/cash", body: "{}", signed: "ours", status: 404, code: domain.RouteNotFound},
		{name: "no route's name", path: "/connectors/Cards", signed: "ours", status: 404, code: domain.RouteNotFound},
		{name: "an escaped name", path: "/connectors/c%61rds", signed: "ours", status: 404, code: domain.RouteNotFound},
		{name: "no name", path: "/connectors/", signed: "ours", status: 404, code: domain.PathNotFound},
		{name: "a path below", path: "/connectors/cards/x", signed: "ours", status: 404, code: domain.PathNotFound},
	} {
		j.mu.Lock()
		j.refuse, j.took = c.refuse, nil
		j.mu.Unlock()
		if c.path == "" {
			c.path = "/connectors/cards"
		}
		a := s.send("POST", c.path, strings.NewReader(c.body), header{"X-Signed", c.signed}, header{"Content-Type", c.media})
		if a.Code != c.status || (c.code != "" && a.problem().Code != c.code) {
			t.Errorf("%s: %d %s", c.name, a.Code, a.Body)
		}
		if c.status == 503 && a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: it is not said when to come again", c.name)
		}
		if taken := len(j.took) == 1 && string(j.took[0]) == c.body; taken != (c.code == "" || c.refuse != nil || c.status == 401) {
			t.Errorf("%s: the connector got %d bodies", c.name, len(j.took))
		}
	}
	if line := s.log.String(); !strings.Contains(line, `"route":"cards","client":"127.0.0.1","bytes":2,"message":"a notification is not the provider's`) {
		t.Errorf("the log says nothing of the forged one:\n%s", line)
	}
}

// TestLongNotificationsAreNotRead sends a body without a length, or with one that is
// too large. Those for a route that takes none are answered without their body.
func TestLongNotificationsAreNotRead(t *testing.T) {
	t.Parallel()
	j := new(judge)
	s := start(t, func(c *settings) { c.Connectors = j })
	for path, status := range map[string]string{"cards": "413", "nowhere": "404"} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, "POST /connectors/"+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+status+" ") {
			t.Errorf("%s: %v\n%s", path, err, answer)
		}
	}
	w := httptest.NewRecorder()
	s.public.ServeHTTP(w, notice("192.0.2.1:1", io.MultiReader(strings.NewReader("x"), bytes.NewReader(make([]byte, maxNotification))), "X-Signed", "ours"))
	if w.Code != 413 || j.judged() != 0 {
		t.Errorf("%d, %d were judged", w.Code, j.judged())
	}
	w = httptest.NewRecorder()
	s.public.ServeHTTP(w, notice("192.0.2.1:1", io.MultiReader(strings.NewReader("x"), broken{}), "X-Signed", "ours"))
	if w.Code != 400 || j.judged() != 0 || !strings.Contains(w.Body.String(), "did not arrive as a whole") {
		t.Errorf("%d %s, %d were judged", w.Code, w.Body, j.judged())
	}
}

// TestSlowNotificationsEnd: a body that does not end is cut off after ten seconds.
func TestSlowNotificationsEnd(t *testing.T) {
	t.Parallel()
	j := new(judge)
	s := start(t, func(c *settings) { c.Connectors = j })
	w := &slow{ResponseRecorder: httptest.NewRecorder()}
	from := time.Now()
	s.public.ServeHTTP(w, notice("192.0.2.1:1", w, "X-Signed", "ours"))
	if given := w.by.Sub(from); given < 5*time.Second || given > 10*time.Second+time.Since(from) {
		t.Errorf("the connection has %v", given)
	}
	if w.Code != 400 || w.Header().Get("Connection") != "close" || j.judged() != 0 || !strings.Contains(w.Body.String(), "not in time") {
		t.Errorf("%d %s, %d were judged", w.Code, w.Body, j.judged())
	}
}

// slow is a connection whose body does not end within its time.
type slow struct {
	*httptest.ResponseRecorder
	by time.Time
}

func (s *slow) SetReadDeadline(by time.Time) error { s.by = by; return nil }

func (s *slow) Read([]byte) (int, error) {
	if s.by.IsZero() {
		return 0, errors.New("read without a deadline")
	}
	return 0, os.ErrDeadlineExceeded
}

// broken is a body whose connection ends.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestNotificationsAtOnce: at most 128 of a route are judged at the same time. Those of
// another route are judged meanwhile.
func TestNotificationsAtOnce(t *testing.T) {
	t.Parallel()
	j := &judge{hold: make(chan struct{})}
	s := start(t, func(c *settings) { c.Connectors = j })
	send := func(route, from string) int {
		w := httptest.NewRecorder()
		s.public.ServeHTTP(w, noticeFor(route, from, strings.NewReader("{}"), "X-Signed", "ours"))
		return w.Code
	}
	var held sync.WaitGroup
	hold := func(n int, route string) {
		before := j.judged()
		for range n { // an address of this machine has no share of its own
			held.Go(func() {
				if code := send(route, "127.0.0.1:1"); code != 200 {
					t.Errorf("one of %d for %s: %d", n, route, code)
				}
			})
		}
		for j.judged() < before+n {
			time.Sleep(time.Millisecond)
		}
	}
	hold(128, "cards")
	if code := send("cards", "192.0.2.1:1"); code != 503 || j.judged() != 128 {
		t.Errorf("one too many: %d, %d are being judged", code, j.judged())
	}
	hold(1, "wallets")
	close(j.hold)
	held.Wait()
	if code := send("cards", "192.0.2.1:1"); code != 200 {
		t.Errorf("afterwards: %d", code)
	}
}

// TestHangingNotificationsGiveWay: when a route or an address has no place, the one that
// has waited longest for its body is refused, and no other.
func TestHangingNotificationsGiveWay(t *testing.T) {
	t.Parallel()
	j := new(judge)
	s := start(t, func(c *settings) { c.Connectors = j })
	patient := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.public.ServeHTTP(timeless{w}, r) }))
	t.Cleanup(patient.Close) // after the connections are closed
	hang := func(from string) *bufio.Reader {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", patient.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		// The server asks for the body once the notification has its place.
		fmt.Fprintf(c, "POST /connectors/cards HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nX-Forwarded-For: %s\r\nContent-Length: 9\r\n\r\n", from)
		r := bufio.NewReader(c)
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("%q, %v", line, err)
		}
		return r
	}
	gaveWay := func(what string, r *bufio.Reader) {
		t.Helper()
		answer, err := io.ReadAll(r)
		if err != nil || !bytes.Contains(answer, []byte("HTTP/1.1 503 ")) || !bytes.Contains(answer, []byte("Retry-After: 1\r\n")) {
			t.Errorf("%s: %v\n%s", what, err, answer)
		}
	}
	first := hang("192.0.2.1")
	own := hang("192.0.2.2")
	for range 15 {
		hang("192.0.2.2")
	}
	hang("192.0.2.2")
	gaveWay("the oldest of an address that has its share", own)
	for i := range 111 {
		hang(fmt.Sprintf("198.51.100.%d", i))
	}
	if a := s.send("POST", "/connectors/cards", strings.NewReader("{}"), header{"X-Signed", "ours"}); a.Code != 200 {
		t.Errorf("the provider's: %d %s", a.Code, a.Body)
	}
	gaveWay("the oldest of a full route", first)
	if n := strings.Count(s.log.String(), `"status":503`); n != 2 {
		t.Errorf("%d gave way, want 2", n)
	}
}

// timeless lets a body arrive however late, and is cut off all the same: a deadline that lies ahead
// is none.
type timeless struct{ http.ResponseWriter }

func (w timeless) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w timeless) SetReadDeadline(by time.Time) error {
	if time.Until(by) > 0 {
		return nil
	}
	return http.NewResponseController(w.ResponseWriter).SetReadDeadline(by)
}

// TestFloodOfNotifications: an address with too many requests at a time, or a
// second, is refused. Those of other addresses are judged.
func TestFloodOfNotifications(t *testing.T) {
	t.Parallel()
	j := &judge{hold: make(chan struct{})}
	s := start(t, func(c *settings) { c.Connectors, c.Limits = j, domain.DefaultLimits() })
	send := func(from string, header ...string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.public.ServeHTTP(w, notice(from, strings.NewReader("{}"), header...))
		return w
	}
	var flood sync.WaitGroup
	for range 16 {
		flood.Go(func() { send("192.0.2.1:1") })
	}
	for j.judged() < 16 {
		time.Sleep(time.Millisecond)
	}
	if w := send("192.0.2.1:2"); w.Code != 503 || w.Header().Get("Retry-After") == "" || j.judged() != 16 {
		t.Errorf("one too many: %d, %d are being judged", w.Code, j.judged())
	}
	other := make(chan *httptest.ResponseRecorder, 1)
	flood.Go(func() { other <- send("192.0.2.2:1", "X-Signed", "ours") })
	for j.judged() < 17 {
		time.Sleep(time.Millisecond)
	}
	close(j.hold)
	if w := <-other; w.Code != 200 {
		t.Errorf("another address: %d %s", w.Code, w.Body)
	}
	flood.Wait()

	// The clock stands still, so the buckets do not refill.
	limited := 0
	for range 500 {
		if w := send("192.0.2.1:3"); w.Code == 429 {
			limited++
			if w.Header().Get("Retry-After") == "" {
				t.Fatal("it is not said when to come again")
			}
		}
	}
	if limited != 17 { // as many as came before, the one that was refused among them
		t.Errorf("%d were refused", limited)
	}
	for from, header := range map[string]string{"192.0.2.2:9": "", "127.0.0.1:9": "", "10.0.0.1:9": "192.0.2.9"} {
		if w := send(from, "X-Signed", "ours", "X-Forwarded-For", header); w.Code != 200 {
			t.Errorf("%s %s: %d", from, header, w.Code)
		}
	}
	if w := send("10.0.0.1:9", "X-Forwarded-For", "192.0.2.1"); w.Code != 429 {
		t.Errorf("the flood through a proxy: %d", w.Code)
	}
	if n := strings.Count(s.log.String(), "a notification is not the provider's"); n == 0 || n > 60 {
		t.Errorf("%d lines in the log", n)
	}
}
