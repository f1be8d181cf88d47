package conns

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// minProgress is how many bytes of an answer a client must take in each
// Patience.
const minProgress = 16 << 10

// conn is an accepted connection. reads and writes are the times since which the
// server waits for the client to send or to take something, in nanoseconds since
// 1970; 0: it does not wait.
type conn struct {
	net.Conn

	of      *Listener
	address string // the address it counts for; "" for none
	reads   atomic.Int64
	writes  atomic.Int64
	active  atomic.Bool // a whole header was read, and its answer is not complete
	begun   atomic.Bool // part of a header was read
	counted atomic.Bool // the reason for its end was counted
}

// waits is the time since which the server waits for the client, 0 while it works.
func (c *conn) waits() int64 {
	if at := c.writes.Load(); at != 0 {
		return at
	}
	return c.reads.Load()
}

// Read implements net.Conn. While an answer is under way net/http waits in the
// background with room for one byte, to notice that the client left; all other
// reads wait for a header or a body.
func (c *conn) Read(b []byte) (int, error) {
	background := len(b) == 1
	if c.active.Load() {
		if background {
			c.reads.Store(0)
		} else {
			c.reads.CompareAndSwap(0, time.Now().UnixNano())
		}
	}
	n, err := c.Conn.Read(b)
	switch {
	case err == nil:
		if !background && !c.active.Load() {
			c.begun.Store(true)
		}
	case errors.Is(err, syscall.ETIMEDOUT):
		c.ended(notReading)
	case !background && errors.Is(err, os.ErrDeadlineExceeded) && (c.begun.Load() || c.active.Load()):
		c.ended(slowRequest)
	}
	return n, err
}

// Write implements net.Conn. It goes on for as long as the client takes
// minProgress in each Patience. The kernel accepts more only after a good part
// of its buffer, which may hold megabytes, was taken: until then the bytes that
// have left that buffer count.
func (c *conn) Write(b []byte) (n int, err error) {
	now := time.Now()
	c.reads.Store(0)
	c.writes.Store(now.UnixNano())
	defer c.writes.Store(0)
	taken, unsent, stalled := 0, -1, false
	for {
		if err := c.SetWriteDeadline(now.Add(c.of.patience / 2)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(b[n:])
		n += m
		late := errors.Is(err, os.ErrDeadlineExceeded)
		if late {
			now = time.Now()
			before := unsent
			if unsent = c.of.unsent(c.Conn); before >= 0 && unsent >= 0 {
				taken += before - unsent
			}
			if taken += m; taken >= minProgress {
				c.writes.Store(now.UnixNano())
				taken, stalled = 0, false
				continue
			}
			if !stalled {
				stalled = true
				continue
			}
		}
		if late || errors.Is(err, syscall.ETIMEDOUT) {
			c.ended(notReading)
			c.discard()
		}
		return n, err
	}
}

// discard makes the kernel drop unsent bytes when the connection closes.
func (c *conn) discard() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// CloseWrite is called by net/http after an answer to a request that it did not
// read to the end.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.remove(c)
	return c.Conn.Close()
}

// ended counts why the connection ends, once.
func (c *conn) ended(why reason) {
	if c.counted.CompareAndSwap(false, true) {
		c.of.report.count(why, c.address)
	}
}
