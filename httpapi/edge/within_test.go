package edge

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"asked": false, "waited for": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parent, leave := context.WithCancel(t.Context())
				open := func() *within {
					w := &within{Context: parent, until: time.Now().Add(time.Second)}
					if waits {
						_ = w.Done()
					}
					return w
				}
				over, ended := open(), open()
				made, cancel := context.WithCancel(open())
				defer cancel()
				time.Sleep(time.Second - time.Nanosecond)
				if err := errors.Join(over.Err(), ended.Err(), made.Err()); err != nil {
					t.Errorf("before its time: %v", err)
				}
				ended.end()
				<-ended.Done()
				if ended.Err() == nil {
					t.Error("it goes on after end")
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if err := over.Err(); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("at its time: %v", err)
				}
				<-over.Done()
				<-made.Done()
				over.renew(time.Second)
				time.Sleep(time.Second - time.Nanosecond)
				if err := over.Err(); err != nil {
					t.Errorf("before its new time: %v", err)
				}
				time.Sleep(time.Nanosecond)
				<-over.Done()

				left := open()
				leave()
				if err := left.Err(); !errors.Is(err, context.Canceled) {
					t.Errorf("the client has left: %v", err)
				}
				<-left.Done()
				left.end()
			})
		})
	}
}
