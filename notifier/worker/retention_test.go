package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"payledger/domain"
)

// keeping is one project that has a payment for each id, the oldest first.
type keeping struct {
	mu     sync.Mutex // held by the test, but while it waits
	days   int
	ids    []domain.ID
	erased map[domain.ID]time.Time
	pages  int
	fails  error
}

const keptPage = 3

func (k *keeping) Kept(context.Context) (map[string]int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.days == 0 {
		return nil, k.fails
	}
	return map[string]int{"prj": k.days}, k.fails
}

func (k *keeping) EraseOverdue(_ context.Context, _ string, days int, before domain.Instant, behind domain.ID) (last domain.ID, err error) {
	time.Sleep(10 * time.Millisecond)
	k.mu.Lock()
	defer k.mu.Unlock()
	if days != k.days {
		return last, errors.New("asked for another number of days")
	}
	k.pages++
	n := 0
	for _, id := range slices.Backward(k.ids) {
		if domain.IDTime(id) >= before || behind != (domain.ID{}) && id.Compare(behind) >= 0 {
			continue
		}
		if n == keptPage {
			return last, nil
		}
		if last, n = id, n+1; k.erased[id].IsZero() {
			k.erased[id] = time.Now()
		}
	}
	return domain.ID{}, nil
}

// TestDetailsAreErasedInTime: within a minute and the time that the pages take, details go that are older
// than their project keeps them, and no others, whatever came between.
func TestDetailsAreErasedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		day := 24 * time.Hour
		k := &keeping{erased: make(map[domain.ID]time.Time)}
		ids := domain.NewIDs(time.Now, zeros{}, domain.ID{})
		for range 10 {
			k.ids = append(k.ids, ids.Next())
			time.Sleep(day)
		}
		k.mu.Lock()
		r := newRetention(Config{Details: k, Now: time.Now})
		run := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.run(ctx) }()
			return func() {
				cancel()
				k.mu.Unlock()
				defer k.mu.Lock()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		}
		gone := func(want int) {
			t.Helper()
			if len(k.erased) != want {
				t.Errorf("%d are erased, want %d", len(k.erased), want)
			}
			for _, id := range k.ids[:min(want, len(k.ids))] {
				if k.erased[id].IsZero() {
					t.Errorf("the payment of %s is left, and not the oldest", domain.IDTime(id))
				}
			}
		}
		wait := func(d time.Duration) {
			k.mu.Unlock()
			time.Sleep(d)
			synctest.Wait()
			k.mu.Lock()
		}
		stop := run()
		wait(time.Hour)
		gone(0)
		k.days = 3
		wait(retainEvery + time.Second)
		gone(8) // of days 0 to 7, at day 10
		if k.pages != 3 {
			t.Errorf("%d pages are read for 8 payments", k.pages)
		}
		pages := k.pages
		wait(time.Hour)
		if got := k.pages - pages; got != 60 {
			t.Errorf("%d pages are read in an hour in which nothing is due, want one a minute", got)
		}
		k.fails = errors.New("the disk")
		wait(day)
		gone(8)
		if r.trouble.Err() == nil {
			t.Error("it does not say that it fails")
		}
		k.fails = nil
		wait(retainEvery + time.Second)
		gone(9)
		if r.trouble.Err() != nil {
			t.Error(r.trouble.Err())
		}
		k.days = 300
		wait(2 * day)
		gone(9)
		stop()

		clear(k.erased) // as if the pages of the first pass were all that was done
		k.days = 3
		r = newRetention(Config{Details: k, Now: time.Now})
		stop = run()
		wait(time.Second)
		gone(10)
		for i, id := range k.ids[:len(k.ids)-keptPage] {
			if k.erased[id].Sub(k.erased[k.ids[i+keptPage]]) < (1+retainRests)*10*time.Millisecond {
				t.Errorf("payment %d was erased without a rest behind the page before", i)
			}
		}
		stop()
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
