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
	last  int
	spare int
	under map[int]*dialUnderWay // by number
}

type dialUnderWay struct {
	cancel context.CancelFunc
	spare  bool
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// count wraps a dial so that d can wait for it and end it.
func (d *dials) count(next dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		n, ok := d.begin(cancel)
		if !ok {
			return nil, &failure{ClassCancelled, net.ErrClosed}
		}
		defer d.done(n)
		if dialing, ok := ctx.Value(dialingKey{}).(context.Context); ok {
			defer context.AfterFunc(dialing, func() { d.unneeded(n) })()
		}
		return next(ctx, network, address)
	}
}

func (d *dials) begin(cancel context.CancelFunc) (n int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return 0, false
	}
	if d.under == nil {
		d.under = make(map[int]*dialUnderWay)
	}
	d.last++
	d.under[d.last] = &dialUnderWay{cancel: cancel}
	d.wait.Add(1)
	return d.last, true
}

func (d *dials) done(n int) {
	d.mu.Lock()
	if d.under[n].spare {
		d.spare--
	}
	delete(d.under, n)
	d.mu.Unlock()
	d.wait.Done()
}

// unneeded ends a dial whose attempt does not need it any more, unless there is
// room for one more of these.
func (d *dials) unneeded(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch u := d.under[n]; {
	case u == nil: // it has ended
	case d.spare < d.maxSpare:
		u.spare = true
		d.spare++
	default:
		u.cancel()
	}
}

// end stops the dials, waits for them and lets no more begin.
func (d *dials) end() {
	d.mu.Lock()
	d.ended = true
	for _, u := range d.under {
		u.cancel()
	}
	d.mu.Unlock()
	d.wait.Wait()
}
