package conns

import (
	"errors"
	"syscall"
	"testing"
	"time"
)

// A connection also ends when its client leaves a few bytes unread, such as
// those of an event stream.
func TestUnreadBytes(t *testing.T) {
	t.Parallel()
	inner, err := listen(t.Context(), "127.0.0.1:0", 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(inner, Config{Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &server{t: t, addr: inner.Addr().String()}
	s.send("")
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		failed <- err
	}()
	for { // a stream writes a little now and then
		if _, err := c.Write(make([]byte, 1<<10)); err != nil {
			break
		}
		select {
		case err := <-failed:
			if !errors.Is(err, syscall.ETIMEDOUT) {
				t.Error(err)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err := <-failed; err == nil {
		t.Error("no error")
	}
}
