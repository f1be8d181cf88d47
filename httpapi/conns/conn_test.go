package conns

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// slowClient is a connection whose client takes so many bytes a second. Like
// Linux it buffers much, and once that is full accepts no more until a third of
// it was taken.
type slowClient struct {
	net.Conn

	rate     int
	held     int
	full     bool
	at       time.Time // of held
	deadline time.Time
}

const buffered = 128 << 10

func (c *slowClient) SetWriteDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func (c *slowClient) unsent() int {
	c.held = max(0, c.held-int(time.Since(c.at).Seconds()*float64(c.rate)))
	c.at = time.Now()
	return c.held
}

func (c *slowClient) Write(b []byte) (n int, err error) {
	for {
		c.full = c.unsent() > buffered*2/3 && c.full
		if !c.full {
			m := min(len(b)-n, buffered-c.held)
			c.held += m
			n += m
			c.full = n < len(b)
		}
		switch {
		case n == len(b):
			return n, nil
		case !time.Now().Before(c.deadline):
			return n, os.ErrDeadlineExceeded
		}
		time.Sleep(time.Second)
	}
}

// A client that reads slowly gets all of a long answer, however long that takes
// whatever the kernel buffers; one that takes next to nothing is dropped
// in time.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	for rate, want := range map[int]error{0: os.ErrDeadlineExceeded, 100: os.ErrDeadlineExceeded, 2 << 10: nil, 20 << 10: nil, 1 << 20: nil} {
		synctest.Test(t, func(t *testing.T) {
			l, err := New(nil, Config{Max: 1})
			if err != nil {
				t.Fatal(err)
			}
			client := &slowClient{rate: rate, at: time.Now()}
			c := &conn{Conn: client, of: l}
			began, last := time.Now(), time.Now()
			for range 64 {
				last = time.Now()
				if _, err = c.Write(make([]byte, 1<<15)); err != nil {
					break
				}
			}
			if !errors.Is(err, want) {
				t.Errorf("%d bytes a second: %v after %v, want %v", rate, err, time.Since(began), want)
			}
			if stalled := time.Since(last); want != nil && (stalled < Patience || stalled > 2*Patience) {
				t.Errorf("%d bytes a second: dropped after %v", rate, stalled)
			}
		})
	}
}
