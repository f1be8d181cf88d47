package webhook

import (
	"context"
	"net"
	"sync"
)

// dialingKey is the key, in the context that the transport dials with, of the
// context that ends when the attempt no longer needs the dial. The transport's
// own context does not end then.
type dialingKey struct{}

// dials counts the dials under way. When another connection becomes free first,
// the transport lets a dial go on for the next attempt. Only maxSpare of these
// may, because each takes a socket.
type dials struct {
	wait     sync.WaitGroup
	maxSpare int // of dials whose attempt does not need them

	mu    sync.Mutex
	ended bool
	spare int
	under map[*context.CancelFunc]bool // ends a dial; true: it is spare
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// count wraps a dial so that d can wait for it and end it.
func (d *dials) count(next dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if !d.begin(&cancel) {
			return nil, &failure{ClassCancelled, net.ErrClosed}
		}
		defer d.done(&cancel)
		if dialing, ok := ctx.Value(dialingKey{}).(context.Context); ok {
			defer context.AfterFunc(dialing, func() { d.unneeded(&cancel) })()
		}
		return next(ctx, network, address)
	}
}

func (d *dials) begin(cancel *context.CancelFunc) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return false
	}
	if d.under == nil {
		d.under = make(map[*context.CancelFunc]bool)
	}
	d.under[cancel] = false
	d.wait.Add(1)
	return true
}

func (d *dials) done(cancel *context.CancelFunc) {
	d.mu.Lock()
	if d.under[cancel] {
		d.spare--
	}
	delete(d.under, cancel)
	d.mu.Unlock()
	d.wait.Done()
}

// unneeded ends a dial whose attempt does not need it any more, unless there is
// room for one more of these.
func (d *dials) unneeded(cancel *context.CancelFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch _, underWay := d.under[cancel]; {
	case !underWay: // it has ended
	case d.spare < d.maxSpare:
		d.under[cancel] = true
		d.spare++
	default:
		(*cancel)()
	}
}

// end stops the dials, waits for them and lets no more begin.
func (d *dials) end() {
	d.mu.Lock()
	d.ended = true
	for cancel := range d.under {
		(*cancel)()
	}
	d.mu.Unlock()
	d.wait.Wait()
}
