package checkout

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
)

// listener is a customer's open stream.
type listener struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Scanner
}

func listen(t *testing.T, client *http.Client, url string) *listener {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return &listener{t, answer, bufio.NewScanner(answer.Body)}
}

// next is the data of the next event, nothing at the end of the stream.
func (l *listener) next() (liveStatus, bool) {
	l.t.Helper()
	for l.lines.Scan() {
		if data, ok := strings.CutPrefix(l.lines.Text(), "data: "); ok {
			var s liveStatus
			if err := json.Unmarshal([]byte(data), &s); err != nil {
				l.t.Fatalf("%q: %v", data, err)
			}
			return s, true
		}
	}
	return liveStatus{}, false
}

// until reads on until the state comes.
func (l *listener) until(want state) {
	l.t.Helper()
	for {
		s, ok := l.next()
		if !ok {
			l.t.Fatalf("the stream ended before %s", want)
		}
		if s.State == want {
			return
		}
	}
}

// A stream sends every state from the present one on and ends with the last.
func TestStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true).(*handler)
	h.heartbeat = time.Hour // only changes are sent
	server := newServer(t, h)
	id := w.create(domain.Created)
	l := listen(t, server.Client(), server.URL+w.path(id)+"/events?lang=ru")
	if got := l.answer.Header.Get("Content-Type"); l.answer.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("%d %s", l.answer.StatusCode, got)
	}
	if s, _ := l.next(); s != (liveStatus{State: preparing, ClosesIn: 3600, Left: "1 час"}) {
		t.Errorf("at first %+v", s)
	}
	w.route(id)
	l.until(open)
	other := w.create(domain.AwaitingPayment)
	w.provider(other, domain.OutcomeFailed)
	w.provider(id, domain.OutcomePaid)
	if s, ok := l.next(); !ok || s.State != paid || !s.Final {
		t.Errorf("then %+v", s)
	}
	if s, more := l.next(); more {
		t.Errorf("after the end %+v", s)
	}
	awaitNoStreams(t, h)
}

// Without events of the log, and when nothing happens but time, the heartbeat
// finds out.
func TestStreamLooksByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true).(*handler)
	h.changes = newChanges(nil, maxStreams)
	server := newServer(t, h)
	id := w.create(domain.AwaitingPayment)
	l := listen(t, server.Client(), server.URL+w.path(id)+"/events")
	l.until(open)
	w.pass(time.Hour)
	l.until(closed)
	w.provider(id, domain.OutcomeExpired)
	l.until(expired)
}

// A shutdown of the server does not wait for customers.
func TestStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true).(*handler)
	stopping, stop := context.WithCancel(t.Context())
	h.Stopping = stopping
	server := newServer(t, h)
	l := listen(t, server.Client(), server.URL+w.path(w.create(domain.AwaitingPayment))+"/events")
	l.until(open)
	stop()
	for {
		if _, more := l.next(); !more {
			break
		}
	}
	awaitNoStreams(t, h)
}

// awaitNoStreams fails unless every stream gives its place back, and the last
// one ends the follower.
func awaitNoStreams(t *testing.T, h *handler) {
	t.Helper()
	for t.Context().Err() == nil {
		h.changes.mu.Lock()
		left, follower, names := h.changes.total, h.changes.follower, len(h.changes.waiting)
		h.changes.mu.Unlock()
		if left == 0 && follower == nil && names == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true).(*handler)
	server := newServer(t, h)
	id, other := w.create(domain.AwaitingPayment), w.create(domain.AwaitingPayment)
	var open1 []*listener
	for range maxPerPayment {
		l := listen(t, server.Client(), server.URL+w.path(id)+"/events")
		l.until(open)
		open1 = append(open1, l)
	}
	full := listen(t, server.Client(), server.URL+w.path(id)+"/events").answer
	if full.StatusCode != http.StatusServiceUnavailable || full.Header.Get("Retry-After") != "30" {
		t.Errorf("one too many: %d %v", full.StatusCode, full.Header)
	}
	listen(t, server.Client(), server.URL+w.path(other)+"/events").until(open)
	_ = open1[0].answer.Body.Close()
	for {
		again := listen(t, server.Client(), server.URL+w.path(id)+"/events")
		if again.answer.StatusCode == http.StatusOK {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if l := w.log(); l != "" {
		t.Errorf("a bound that was reached was logged: %s", l)
	}
	h.changes.mu.Lock()
	h.changes.total += maxStreams
	h.changes.mu.Unlock()
	third := w.create(domain.AwaitingPayment)
	if rec := get(h, w.path(third)+"/events"); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("one more than the process takes: %s", page(rec))
	}
	h.changes.mu.Lock()
	h.changes.total -= maxStreams
	h.changes.mu.Unlock()
}

// One address opens its share of the streams, over many payments, and nobody
// else is kept out. Its places come back.
func TestStreamsOfAnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true).(*handler)
	h.Visitor = func(r *http.Request) string { return r.Header.Get("X-From") }
	h.changes.max = maxPerPayment * addressShare
	server := newServer(t, h)
	stream := func(from string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+w.path(w.create(domain.AwaitingPayment))+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-From", from)
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	var first *http.Response
	for range maxPerPayment {
		if first = stream("a"); first.StatusCode != http.StatusOK {
			t.Fatal(first.Status)
		}
	}
	if over := stream("a"); over.StatusCode != http.StatusTooManyRequests || over.Header.Get("Retry-After") != "30" {
		t.Errorf("over the share: %d %v", over.StatusCode, over.Header)
	}
	if other := stream("b"); other.StatusCode != http.StatusOK {
		t.Errorf("another address: %d", other.StatusCode)
	}
	_ = first.Body.Close()
	for t.Context().Err() == nil && stream("a").StatusCode != http.StatusOK {
		time.Sleep(time.Millisecond)
	}
}

func TestStreamsThatAreNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	path := w.path(w.create(domain.AwaitingPayment)) + "/events"
	if rec := get(h, w.path(domain.ID{1})+"/events"); rec.Code != http.StatusNotFound ||
		rec.Header().Get("Content-Type") != "application/problem+json" {
		t.Error(page(rec))
	}
	if rec := call(h, http.MethodPost, path, ""); rec.Code != http.StatusMethodNotAllowed || rec.Header().Get("Allow") != "GET, HEAD" {
		t.Error(page(rec))
	}
	if rec := call(h, http.MethodHead, path, ""); rec.Code != http.StatusOK || rec.Body.Len() != 0 {
		t.Error(page(rec))
	}
	w.breakViews(errBroken)
	if rec := get(h, path); rec.Code != http.StatusInternalServerError {
		t.Error(page(rec))
	}
}

// Beyond the limit there is a page of its own that says when to try again.
func TestLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true).(*handler)
	path := w.path(w.create(domain.AwaitingPayment))
	asset := assetPath(t, get(h, path).Body.String())
	h.Limit = func(r *http.Request, _ projects.Project) (time.Duration, bool) {
		return 1500 * time.Millisecond, r.Method == http.MethodPut
	}
	rec := get(h, path, "Accept-Language", "ru")
	if rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") != "2" ||
		!strings.Contains(rec.Body.String(), "<h1>Слишком много запросов</h1>") || !strings.Contains(rec.Body.String(), "через 2 секунды") ||
		!strings.Contains(rec.Body.String(), `<a href="./`+path[3:]+`">`) {
		t.Error(page(rec))
	}
	wellFormed(t, rec.Body.String())
	if rec := get(h, path+"/status"); rec.Code != http.StatusTooManyRequests || rec.Header().Get("Content-Type") != "application/problem+json" {
		t.Error(page(rec))
	}
	if rec := get(h, asset); rec.Code != http.StatusOK {
		t.Errorf("a file of the page: %s", page(rec))
	}
	if rec := call(h, http.MethodPut, path, ""); rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("within the limit: %s", page(rec))
	}
}

func assetPath(t *testing.T, body string) string {
	t.Helper()
	_, rest, ok := strings.Cut(body, `href="./assets/`)
	if !ok {
		t.Fatal(body)
	}
	name, _, _ := strings.Cut(rest, `"`)
	return "/p/assets/" + name
}
