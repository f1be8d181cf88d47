package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// streamTimes pace answers that may take as long as the client stays.
type streamTimes struct {
	patience  time.Duration // how long one write may wait for a client that does not read
	heartbeat time.Duration // between signs of life while there is nothing to tell
}

func (s streamTimes) orDefault() streamTimes {
	if s.patience == 0 {
		s.patience = 30 * time.Second
	}
	if s.heartbeat == 0 {
		s.heartbeat = 15 * time.Second
	}
	return s
}

// stream is an answer that is written bit by bit. Nothing is kept for a client
// that reads slowly: the stream waits for it, and gives it up when a single
// write takes longer than its patience.
type stream struct {
	x        *exchange
	control  *http.ResponseController
	patience time.Duration
}

// stream begins an answer of status 200.
func (x *exchange) stream(t streamTimes, contentType string) *stream {
	s := &stream{x: x, control: http.NewResponseController(x.ResponseWriter), patience: t.orDefault().patience}
	h := x.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold it back
	h.Set("X-Content-Type-Options", "nosniff")
	x.WriteHeader(http.StatusOK)
	return s
}

// Write implements io.Writer.
func (s *stream) Write(b []byte) (int, error) {
	s.deadline()
	return s.x.Write(b)
}

// flush sends what was written so far.
func (s *stream) flush() error {
	s.deadline()
	return s.control.Flush()
}

// end sends the rest and frees the connection for the next request.
func (s *stream) end() error {
	err := s.flush()
	_ = s.control.SetWriteDeadline(time.Time{})
	return err
}

// deadline is ignored where the answer does not go to a connection.
func (s *stream) deadline() {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.patience))
}

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
