package webhook

import (
	"context"
	"net"
	"sync"
)

// dialingKey is the key of the context that a dial ends with, among the values
// of the transport's, which ends with nothing.
type dialingKey struct{}

// dials keeps account of dials under way: left alone, the transport lets one go
// on when the attempt that asked for it has ended or got another connection, and
// then an attempt would hold more than one socket.
type dials struct {
	wait sync.WaitGroup

	mu      sync.Mutex
	ended   bool
	last    int
	cancels map[int]context.CancelFunc // by number
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// count makes d wait for the dial and end it.
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
			defer context.AfterFunc(dialing, cancel)()
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
	if d.cancels == nil {
		d.cancels = make(map[int]context.CancelFunc)
	}
	d.last++
	d.cancels[d.last] = cancel
	d.wait.Add(1)
	return d.last, true
}

func (d *dials) done(n int) {
	d.mu.Lock()
	delete(d.cancels, n)
	d.mu.Unlock()
	d.wait.Done()
}

// end stops the dials, waits for them and lets no more begin.
func (d *dials) end() {
	d.mu.Lock()
	d.ended = true
	for _, cancel := range d.cancels {
		cancel()
	}
	d.mu.Unlock()
	d.wait.Wait()
}
