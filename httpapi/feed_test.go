package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/conns"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
	"payledger/projections/views"
)

// reader is a client of the feed as server-sent events.
type reader struct {
	t      testing.TB
	res    *http.Response
	lines  *bufio.Reader
	cancel context.CancelFunc
}

// event is one server-sent event.
type event struct{ ID, name, data string }

func (m shop) follow(query string, headers ...header) *reader {
	m.s.t.Helper()
	ctx, cancel := context.WithCancel(m.s.t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", m.s.url+"/v1/events"+query, nil)
	if err != nil {
		m.s.t.Fatal(err)
	}
	r.Header.Set("Authorization", m.authorization())
	r.Header.Set("Accept", "text/event-stream")
	for _, h := range headers {
		r.Header.Set(h[0], h[1])
	}
	res, err := m.s.client.Do(r)
	if err != nil {
		m.s.t.Fatal(err)
	}
	f := &reader{t: m.s.t, res: res, lines: bufio.NewReader(res.Body), cancel: cancel}
	m.s.t.Cleanup(f.close)
	return f
}

func (f *reader) close() {
	f.cancel()
	_ = f.res.Body.Close()
}

// next reads one event or comment; ok is false at the end of the stream.
func (f *reader) next() (e event, ok bool) {
	f.t.Helper()
	for {
		line, err := f.lines.ReadString('\n')
		if err != nil {
			return e, false
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch {
		case line == "\n":
			return e, true
		case name == "id":
			e.ID = value
		case name == "event":
			e.name = value
		case name == "data":
			e.data = value
		}
	}
}

// take reads n events.
func (f *reader) take(n int) (events []event) {
	f.t.Helper()
	for len(events) < n {
		e, ok := f.next()
		if !ok {
			f.t.Fatalf("the stream ended after %d of %d events", len(events), n)
		}
		if e.ID != "" {
			events = append(events, e)
		}
	}
	return events
}

// recorded are the lines that the project's feed must have.
func (m shop) recorded() (lines []string) {
	m.s.t.Helper()
	for r, err := range m.s.store.Scan(m.s.t.Context(), 0, eventstore.Filter{Project: m.project, Kind: eventstore.KindPayment}) {
		if err != nil {
			m.s.t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf(`{"position":%d,"event":%s}`, r.Position, r.Body))
	}
	return lines
}

func linesOf(a *answer) []string {
	text := strings.TrimSuffix(string(a.Body), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func TestFeedAsLines(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	if a := m.get("/v1/events").want(200, ""); len(a.Body) != 0 {
		t.Errorf("%s", a.Body)
	}
	id := m.paid()
	other.paid()
	m.refund(id).want(201, "")
	all := m.recorded()
	if len(all) != 4 {
		t.Fatalf("%d events", len(all))
	}
	a := m.get("/v1/events").want(200, "")
	if got := linesOf(a); !slices.Equal(got, all) || a.Header.Get("Content-Type") != "application/jsonl" || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v\n%s", a.Header, a.Body)
	}
	if theirs := linesOf(other.get("/v1/events")); !slices.Equal(theirs, other.recorded()) || strings.Contains(fmt.Sprint(theirs), m.project) {
		t.Errorf("%s", theirs)
	}
	// Continuing from each line, in parts, gives the same.
	for i, line := range all {
		var n int
		if _, err := fmt.Sscanf(line, `{"position":%d`, &n); err != nil {
			t.Fatal(err)
		}
		if got := linesOf(m.get(fmt.Sprintf("/v1/events?after=%d", n))); !slices.Equal(got, all[i+1:]) {
			t.Errorf("after %d: %s", n, got)
		}
		if got := linesOf(m.get(fmt.Sprintf("/v1/events?limit=%d", i+1))); !slices.Equal(got, all[:i+1]) {
			t.Errorf("limit %d: %s", i+1, got)
		}
	}
	if a := m.send("HEAD", "/v1/events", nil, header{"Accept", "application/jsonl, text/event-stream;q=0.1"}); a.Header.Get("Content-Type") != edge.JSONLines {
		t.Errorf("a stream has less weight: %v", a.Header)
	}
	if head := m.send("HEAD", "/v1/events", nil).want(200, ""); len(head.Body) != 0 {
		t.Errorf("%s", head.Body)
	}
	// It has no events of the project itself.
	if strings.Contains(fmt.Sprint(all), "project.") {
		t.Errorf("%s", all)
	}
}

// A key without read gets of each event what is left after the details were erased.
func TestFeedWithoutDetails(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	auditor := m
	var k wire.Key
	s.adminDo("POST", "/admin/projects/"+m.project+"/keys", `{"scopes":["audit"]}`).want(201, "").decode(&k)
	auditor.secret = k.APIKey
	id := m.pay(`{"amount":"1","description":"Ivan Petrov","payload":{"mail":"ivan@example.com"}}`).want(201, "").object().ID
	whole := linesOf(m.get("/v1/events").want(200, ""))
	if len(whole) != 1 || !strings.Contains(whole[0], "Petrov") || !strings.Contains(whole[0], `"salt":`) {
		t.Fatalf("with read: %s", whole)
	}
	lines := linesOf(auditor.get("/v1/events").want(200, ""))
	if all := m.recorded(); !slices.Equal(lines, all) {
		t.Errorf("without read: %s, want %s", lines, all)
	}
	if data := auditor.follow("").take(1)[0].data; data != lines[0] {
		t.Errorf("without read, as a stream: %s", data)
	}
	if data := m.follow("").take(1)[0].data; data != whole[0] {
		t.Errorf("with read, as a stream: %s", data)
	}
	m.erase(id, `{"reason":"asked by the customer"}`).want(200, "")
	if erased := linesOf(m.get("/v1/events?limit=1").want(200, "")); !slices.Equal(erased, lines) {
		t.Errorf("erased: %s, without read: %s", erased, lines)
	}
}

// A list of events that breaks off cannot be mistaken for a complete one. The damage
// is reported to the operator although the answer began with 200.
func TestFeedCutShort(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	m.pay(`{"amount":1}`).want(201, "")
	m.pay(`{"amount":2}`).want(201, "")
	last, err := s.store.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.get("/v1/payments").want(200, "") // the views have read all of it
	s.store.Damage(last)
	listener := httptest.NewServer(s.public)
	t.Cleanup(listener.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, listener.URL+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", m.authorization())
	if res, err := listener.Client().Do(req); err == nil { // else it broke off before its first byte was sent
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("%d, ended in order after %s", res.StatusCode, body)
		}
	}
	listener.Close() // the record is written when the answer is over
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "damaged") && strings.Contains(line, `"level":"error"`) {
			return
		}
	}
	t.Errorf("the log does not tell why: %s", s.log.String())
}

func TestFeedRefusals(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	last, _ := s.store.Last(t.Context())
	for _, query := range []string{
		"after=-1", "after=x", "after=", "after=01", "after=+1", "after=9223372036854775808", fmt.Sprintf("after=%d", last+1),
		"limit=0", "limit=x", "limit=1000001", "limit=01", "nothing=1", "after=1&after=2",
	} {
		m.get("/v1/events?"+query).want(400, domain.InvalidParameter)
	}
	for _, id := range []string{"x", "-1", "01", fmt.Sprint(last + 1)} {
		a := m.send("GET", "/v1/events", nil, header{"Accept", "text/event-stream"}, header{"Last-Event-ID", id}).want(400, domain.InvalidParameter)
		if !strings.Contains(string(a.Body), `"parameter":"Last-Event-ID"`) {
			t.Errorf("%s", a.Body)
		}
	}
	m.get(fmt.Sprintf("/v1/events?after=%d", last)).want(200, "")
	s.merchant("", "payments:write", "refunds:write", "read").get("/v1/events").want(403, domain.ScopeMissing)
	s.merchant("", "audit").get("/v1/events").want(200, "")
	s.send("GET", "/v1/events", nil).want(401, domain.Unauthorized)
	m.post("/v1/events", "{}").want(405, domain.MethodNotAllowed)
}

// A reader whose connection breaks again and again, at any byte, gets every event
// once.
func TestFeedResumesExactly(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	const rounds = 20
	var writing sync.WaitGroup
	writing.Go(func() {
		for range rounds {
			m.pay(`{"amount":1}`).want(201, "")
			other.pay(`{"amount":2}`).want(201, "")
		}
	})
	var got []string
	last := "0"
	for i := 0; len(got) < rounds; i++ {
		f := m.follow("?after=0", header{"Last-Event-ID", last})
		if ct := f.res.Header.Get("Content-Type"); f.res.StatusCode != 200 || ct != "text/event-stream" {
			t.Fatalf("%d %s", f.res.StatusCode, ct)
		}
		for _, e := range f.take(min(1+i%3, rounds-len(got))) {
			got = append(got, e.data)
			last = e.ID
			if e.name != "payment.created" {
				t.Errorf("event: %s", e.name)
			}
		}
		f.close()
	}
	writing.Wait()
	if want := m.recorded(); !slices.Equal(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestFeedEndsAfterTheLimit(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	m.paid()
	f := m.follow("?limit=2")
	f.take(2)
	if e, ok := f.next(); ok {
		t.Errorf("%v", e)
	}
}

func TestFeedShowsSignsOfLife(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) { c.Heartbeat = 5 * time.Millisecond })
	m := s.merchant("")
	f := m.follow("")
	for range 5 {
		if e, ok := f.next(); !ok || e != (event{}) {
			t.Fatalf("%v %v", e, ok)
		}
	}
}

// A feed ends when its key may no longer read it, also when no event comes.
func TestFeedEndsWithItsKey(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *settings) { c.Heartbeat = time.Hour })
	for name, end := range map[string]func(shop){
		"revoked":  func(m shop) { s.adminDo("DELETE", "/admin/projects/"+m.project+"/keys/"+m.keyID, "").want(204, "") },
		"disabled": func(m shop) { s.adminDo("POST", "/admin/projects/"+m.project+"/disable", "").want(200, "") },
	} {
		m := s.merchant("")
		m.pay(`{"amount":1}`).want(201, "")
		f, elsewhere := m.follow(""), s.merchant("").follow("")
		f.take(1)
		id := m.pay(`{"amount":2}`).want(201, "").object().ID
		if e := f.take(1)[0]; !strings.Contains(e.data, id) {
			t.Errorf("%s: %v", name, e)
		}
		end(m)
		if e, ok := f.next(); ok {
			t.Errorf("%s: the feed goes on: %v", name, e)
		}
		elsewhere.close()
	}
}

// Events that a slow reader has not been sent when its key is revoked are never
// sent.
func TestLongAnswersEndWithTheirKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	for path, accept := range map[string]string{
		"/v1/events?limit=1000": edge.JSONLines, "/v1/events": edge.EventStream, "/v1/payments": edge.CSVType,
	} {
		m := s.merchant("")
		const events = views.MaxLimit + 1 // more than a page of CSV
		s.fill(m, events, 1)
		w := &stopper{ResponseRecorder: httptest.NewRecorder()}
		w.at = func() { s.adminDo("DELETE", "/admin/projects/"+m.project+"/keys/"+m.keyID, "").want(204, "") }
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("Authorization", m.authorization())
		r.Header.Set("Accept", accept)
		cut := func() (cut bool) {
			defer func() { cut = recover() != nil }()
			s.public.ServeHTTP(w, r)
			return false
		}()
		if n := strings.Count(w.Body.String(), "RUB"); n == 0 || n >= events {
			t.Errorf("%s %s: %d of %d events after the key was revoked during the first write", path, accept, n, events)
		}
		if cut != (accept != edge.EventStream) {
			t.Errorf("%s %s: cut short: %t", path, accept, cut)
		}
	}
}

// stopper is a client that acts when the first event arrives.
type stopper struct {
	*httptest.ResponseRecorder
	at   func()
	once sync.Once
}

func (w *stopper) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("RUB")) {
		w.once.Do(w.at)
	}
	return w.ResponseRecorder.Write(b)
}

func TestFeedsOfAProjectAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	var open []*reader
	for range merchant.MaxFeeds {
		f := m.follow("")
		f.next()
		open = append(open, f)
	}
	a := m.get("/v1/events").want(429, domain.RateLimited)
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	m.send("GET", "/v1/events", nil, header{"Accept", "text/event-stream"}).want(429, domain.RateLimited)
	other.get("/v1/events").want(200, "")
	m.get("/v1/payments").want(200, "")
	open[0].close()
	eventuallyOpen(t, m)
}

// eventuallyOpen waits until the server has noticed that a reader left.
func eventuallyOpen(t *testing.T, m shop) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); m.get("/v1/events?limit=1").Code != 200; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a place is not given back")
		}
	}
}

func TestFeedEndsWhenTheServerStops(t *testing.T) {
	t.Parallel()
	stopping, stop := context.WithCancel(t.Context())
	s := start(t, func(c *settings) { c.Stopping = stopping })
	m := s.merchant("")
	m.pay(`{"amount":1}`).want(201, "")
	f := m.follow("")
	f.take(1)
	stop()
	if e, ok := f.next(); ok {
		t.Errorf("%v", e)
	}
	if _, err := f.lines.ReadByte(); err != io.EOF {
		t.Errorf("the stream does not end in order: %v", err)
	}
}

// A feed whose client does not read is closed. It delays no other client, and its
// place is free again.
func TestFeedEndsForStalledReader(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.url = s.bounded(s.public, 300*time.Millisecond)
	m := s.merchant("")
	s.fill(m, 20, 60<<10)
	for _, accept := range []string{"text/event-stream", "application/jsonl"} {
		var stuck []net.Conn
		for range merchant.MaxFeeds {
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nAccept: %s\r\n\r\n", m.authorization(), accept)
			stuck = append(stuck, conn)
		}
		for _, conn := range stuck { // all of them are let in; no more than this is read
			status := make([]byte, len("HTTP/1.1 200"))
			if _, err := io.ReadFull(conn, status); err != nil || string(status) != "HTTP/1.1 200" {
				t.Fatalf("%s %v", status, err)
			}
		}
		// Other requests are answered meanwhile.
		other := s.merchant("")
		f := other.follow("")
		id := other.pay(`{"amount":1}`).want(201, "").object().ID
		if e := f.take(1)[0]; !strings.Contains(e.data, id) {
			t.Errorf("%v", e)
		}
		f.close()
		eventuallyOpen(t, m)
		for _, conn := range stuck {
			conn.Close()
		}
	}
}

// bounded serves on connections with small buffers, which are closed when their
// client does not read.
func (s *server) bounded(h http.Handler, patience time.Duration) (url string) {
	s.t.Helper()
	server := httptest.NewUnstartedServer(h)
	l, err := conns.New(smallBuffers{server.Listener}, conns.Config{Name: "test", Max: 100, Patience: patience})
	if err != nil {
		s.t.Fatal(err)
	}
	server.Listener, server.Config.ConnState = l, l.State
	server.Start()
	s.t.Cleanup(server.Close)
	return server.URL
}

type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(8 << 10)
	}
	return c, err
}

// fill adds events of the merchant with payloads of this size.
func (s *server) fill(m shop, n, size int) {
	s.t.Helper()
	for range n {
		id := s.cfg.IDs.Next()
		st := eventstore.PaymentStream(m.project, id)
		body, err := s.cfg.Ledger.Codec.Encode(st, 1, id, eventstore.Cause{}, domain.PaymentCreated{
			Amount: 1, Currency: "RUB", Payload: domain.JSON(`{"x":"` + strings.Repeat("x", size) + `"}`),
		})
		if err != nil {
			s.t.Fatal(err)
		}
		_, err = eventstore.AppendOne(s.t.Context(), s.store, eventstore.Commit{ID: id, Record: eventstore.Record{Stream: st, Body: body}})
		if err != nil {
			s.t.Fatal(err)
		}
	}
}
