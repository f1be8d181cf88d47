package notifier

import (
	"testing"
	"time"
)

func TestRelayCopiesTheLogInOrder(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	for range 300 {
		b.create(t, time.Hour)
	}
	s := startServer(t, ServerConfig{})
	c := connectTo(t, s)
	r := newRelay(c, b)
	run(t, r.Run)
	for range 300 {
		b.routed(t)
	}
	sameAsLog(t, c.js, b)
	eventually(t, "the relay knows", func() bool { return r.Position() == b.last(t) && r.Err() == nil })
}
