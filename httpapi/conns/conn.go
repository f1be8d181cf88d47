package conns

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// maxWrite is what is written at once, so that each Patience a client must take about
// as much.
const maxWrite = 32 << 10

// conn is an accepted connection.
type conn struct {
	net.Conn

	of      *Listener
	address string       // the address it counts for; "" for none
	yields  atomic.Int64 // from when on it gives way to another one, in nanoseconds since 1970; 0: a request is at work
	begun   atomic.Bool  // part of a request was read
	counted atomic.Bool  // the reason for its end was counted
}

// later is a time in the form of yields.
func later(d time.Duration) int64 { return time.Now().Add(d).UnixNano() }

// Read implements net.Conn. While an answer is being written net/http reads one byte in the
// background, to notice that the client left; all other reads are for a header or a body.
func (c *conn) Read(b []byte) (int, error) {
	background := len(b) == 1
	if !background && c.yields.CompareAndSwap(0, later(minStall)) { // a body: else it yields already
		defer c.yields.Store(0)
	}
	n, err := c.Conn.Read(b)
	switch {
	case errors.Is(err, syscall.ETIMEDOUT):
		c.ended(notReading)
	case background:
	case err == nil:
		c.begun.Store(true)
	case errors.Is(err, os.ErrDeadlineExceeded) && c.begun.Load():
		c.ended(slowRequest)
	}
	return n, err
}

// Write implements net.Conn. The client has Patience for each part of the bytes.
func (c *conn) Write(b []byte) (n int, err error) {
	defer c.yields.Store(0)
	for n < len(b) && err == nil {
		c.yields.Store(later(minStall))
		if err = c.SetWriteDeadline(time.Now().Add(c.of.config.Patience)); err != nil {
			break
		}
		var m int
		m, err = c.Conn.Write(b[n:min(n+maxWrite, len(b))])
		n += m
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) {
		c.ended(notReading)
	}
	return n, err
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
	c.of.mu.Lock()
	c.of.forget(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// ended counts why the connection ends, once.
func (c *conn) ended(why reason) {
	if c.counted.CompareAndSwap(false, true) {
		c.of.report.count(why, c.address)
	}
}
