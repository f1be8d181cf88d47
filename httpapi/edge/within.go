package edge

import (
	"context"
	"sync"
	"time"
)

// within is a context that ends with the one it is made of, or at a time. It
// is context.WithDeadline for those who rarely wait: the timer is made when
// somebody does.
type within struct {
	context.Context

	until time.Time

	mu     sync.Mutex
	timed  context.Context // nil while nobody has waited
	cancel context.CancelFunc
}

func (w *within) wait() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timed == nil {
		w.timed, w.cancel = context.WithDeadline(w.Context, w.until)
	}
	return w.timed
}

// Deadline implements context.Context.
func (w *within) Deadline() (time.Time, bool) { return w.wait().Deadline() }

// Done implements context.Context.
func (w *within) Done() <-chan struct{} { return w.wait().Done() }

// Err implements context.Context.
func (w *within) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.timed != nil:
		return w.timed.Err()
	case w.Context.Err() != nil:
		return w.Context.Err()
	case !time.Now().Before(w.until):
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context. Contexts made of this one ask for the one
// that Done is of.
func (w *within) Value(key any) any {
	w.mu.Lock()
	of := w.timed
	w.mu.Unlock()
	if of == nil {
		of = w.Context
	}
	return of.Value(key)
}

// renew gives the context new time from now on. Nobody may be waiting for it:
// contexts made of it before end.
func (w *within) renew(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timed != nil {
		w.cancel()
		w.timed = nil
	}
	w.until = time.Now().Add(d)
}

// end frees the timer, and ends the context for whoever still holds it.
func (w *within) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timed == nil {
		w.until = time.Time{}
		return
	}
	w.cancel()
}
