package edge

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"
)

// The media types of answers that are written bit by bit.
const (
	JSONLines   = "application/jsonl"
	EventStream = "text/event-stream"
)

// Stream is an answer that is written in parts. Nothing is buffered for a slow client: the stream
// waits for it, until its connection is closed (package conns).
type Stream struct {
	x       *Exchange
	control *http.ResponseController
}

// Stream begins an answer of status 200.
func (x *Exchange) Stream(contentType string) *Stream {
	s := &Stream{x: x, control: http.NewResponseController(x.ResponseWriter)}
	h := x.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold it back
	h.Set("X-Content-Type-Options", "nosniff")
	x.WriteHeader(http.StatusOK)
	return s
}

// Write implements io.Writer.
func (s *Stream) Write(b []byte) (int, error) { return s.x.Write(b) }

// Line writes v as one line of JSON.
func (s *Stream) Line(v any) error {
	b, err := json.Marshal(v, AsWritten())
	if err == nil {
		_, err = s.Write(append(b, '\n'))
	}
	return err
}

// Flush sends what was written so far.
func (s *Stream) Flush() error { return s.control.Flush() }

// UntilStopping is ctx, which also ends with stopping (nil: never), when the
// server begins to shut down.
func UntilStopping(ctx, stopping context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if stopping == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(stopping, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
