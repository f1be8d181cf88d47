package edge

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadline compares a deadline whose Done was asked for, and one whose Done
// was not, with what context.WithDeadline promises.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"asked": false, "waited for": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client, leave := context.WithCancel(t.Context())
				open := func() *deadline {
					d := &deadline{Context: client, at: time.Now().Add(time.Second)}
					if waits {
						_ = d.Done()
					}
					return d
				}
				over, ended := open(), open()
				defer over.end()
				made, cancel := context.WithCancel(open())
				defer cancel()
				time.Sleep(time.Second - time.Nanosecond)
				if err := errors.Join(over.Err(), ended.Err(), made.Err()); err != nil {
					t.Errorf("before its time: %v", err)
				}
				ended.end()
				if ended.Err() == nil {
					t.Error("it goes on after end")
				}
				<-ended.Done()
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if err := over.Err(); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("at its time: %v", err)
				}
				<-over.Done()
				<-made.Done()
				if !errors.Is(made.Err(), context.DeadlineExceeded) {
					t.Errorf("a context that was made of it: %v", made.Err())
				}

				left := open()
				defer left.end()
				leave()
				if err := left.Err(); !errors.Is(err, context.Canceled) {
					t.Errorf("the client has left: %v", err)
				}
				<-left.Done()
			})
		})
	}
}
