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

// Stream begins an answer of status 200 that is written in parts, and returns x. Nothing is buffered
// for a slow client: a write waits for it, until its connection is closed (package conns).
func (x *Exchange) Stream(contentType string) *Exchange {
	h := x.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would hold it back
	h.Set("X-Content-Type-Options", "nosniff")
	x.WriteHeader(http.StatusOK)
	return x
}

// Line writes v as one line of JSON.
func (x *Exchange) Line(v any) error {
	b, err := json.Marshal(v, AsWritten())
	if err == nil {
		_, err = x.Write(append(b, '\n'))
	}
	return err
}

// Flush sends what was written so far.
func (x *Exchange) Flush() error { return http.NewResponseController(x.ResponseWriter).Flush() }

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
