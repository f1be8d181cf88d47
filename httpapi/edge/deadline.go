package edge

import (
	"context"
	"sync"
	"time"
)

// deadline is context.WithDeadline for requests that seldom wait: its timer is
// made when Done is asked for. With a timer for each request it took 0.8 of the
// 7.5 µs of a GET's handler (a profile of BenchmarkHandler/GET in package httpapi).
type deadline struct {
	context.Context // of the request

	at time.Time

	mu    sync.Mutex
	over  bool            // end was called
	timed context.Context // nil until Done was asked for
	stop  context.CancelFunc
}

// waited is the context that Done is of: nil before it was asked for, unless now.
func (d *deadline) waited(now bool) context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed == nil && now {
		at := d.at
		if d.over {
			at = time.Time{}
		}
		d.timed, d.stop = context.WithDeadline(d.Context, at)
	}
	return d.timed
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} { return d.waited(true).Done() }

// Err implements context.Context.
func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.timed != nil:
		return d.timed.Err()
	case d.Context.Err() != nil:
		return d.Context.Err()
	case d.over || !time.Now().Before(d.at):
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context. A context made of this one asks for the one
// that Done is of, to be ended with it.
func (d *deadline) Value(key any) any {
	if timed := d.waited(false); timed != nil {
		return timed.Value(key)
	}
	return d.Context.Value(key)
}

// end stops the timer, and ends the context for whoever still holds it.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	if d.timed != nil {
		d.stop()
	}
}
