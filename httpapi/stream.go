package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// streamTimes pace answers that may take as long as the client stays.
type streamTimes struct {
	heartbeat time.Duration // between signs of life while there is nothing to tell
}

func (s streamTimes) orDefault() streamTimes {
	if s.heartbeat == 0 {
		s.heartbeat = 15 * time.Second
	}
	return s
}

// stream is an answer that is written bit by bit. Nothing is kept for a client
// that reads slowly: the stream waits for it, until its connection is given up
// (package conns).
type stream struct {
	x       *exchange
	control *http.ResponseController
}

// stream begins an answer of status 200.
func (x *exchange) stream(contentType string) *stream {
	s := &stream{x: x, control: http.NewResponseController(x.ResponseWriter)}
	h := x.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold it back
	h.Set("X-Content-Type-Options", "nosniff")
	x.WriteHeader(http.StatusOK)
	return s
}

// Write implements io.Writer.
func (s *stream) Write(b []byte) (int, error) { return s.x.Write(b) }

// flush sends what was written so far.
func (s *stream) flush() error { return s.control.Flush() }

// untilStopping is the request's context, which also ends when the server
// begins to shut down.
func (x *exchange) untilStopping(c Config) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(x.ctx())
	if c.Stopping == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(c.Stopping, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// openStreams counts the streams under way by project.
type openStreams struct {
	mu        sync.Mutex
	byProject map[string]int
}

// enter takes one of the project's places, of which there are most; leave
// gives it back.
func (o *openStreams) enter(project string, most int) (leave func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byProject[project] >= most {
		return nil, false
	}
	o.byProject[project]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.byProject[project]--; o.byProject[project] == 0 {
			delete(o.byProject, project)
		}
	}, true
}
