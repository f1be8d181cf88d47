package bolt

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"payledger/eventstore"
)

func (q *queue) addOne(patient bool) error {
	results := make([]eventstore.Appended, 1)
	q.add([]pending{{commit: eventstore.Commit{Patient: patient}}}, results)
	return results[0].Err
}

// Patient commits leave with the next commit that is not patient, or together after
// twice the time of the last group.
func TestPatientCommitsShareAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		add := func(patient bool) {
			if err := q.addOne(patient); err != nil {
				t.Fatal(err)
			}
		}
		group := func(took time.Duration) (n int, after time.Duration) {
			began := time.Now()
			if g := q.take(groupPolicy{took: took}); g != nil {
				n = len(g.commits)
			}
			return n, time.Since(began)
		}
		add(true)
		if n, after := group(0); n != 1 || after != minDelay {
			t.Errorf("the first patient commit left after %v in a group of %d", after, n)
		}
		add(true)
		add(true)
		if n, after := group(3 * time.Millisecond); n != 2 || after != 6*time.Millisecond {
			t.Errorf("two patient commits left after %v in a group of %d", after, n)
		}
		add(true)
		time.Sleep(minDelay)
		if n, after := group(3 * time.Millisecond); n != 1 || after != 5*time.Millisecond {
			t.Errorf("one that had waited before left after %v in a group of %d", after, n)
		}
		add(true)
		time.Sleep(minDelay / 2)
		add(false)
		if n, after := group(time.Hour); n != 2 || after != 0 {
			t.Errorf("with another commit they left after %v in a group of %d", after, n)
		}
		add(true)
		go func() {
			time.Sleep(minDelay)
			_ = q.addOne(false)
		}()
		if n, after := group(time.Hour); n != 2 || after != minDelay {
			t.Errorf("when another commit came they left after %v in a group of %d", after, n)
		}
		add(true)
		if n, after := group(time.Hour); n != 1 || after != maxDelay {
			t.Errorf("behind a slow group it left after %v in a group of %d", after, n)
		}
		for range maxPatient {
			add(true)
		}
		if n, after := group(time.Hour); n != maxPatient || after != 0 {
			t.Errorf("many patient commits left after %v in a group of %d", after, n)
		}
		add(true)
		q.close()
		if n, _ := group(0); n != 1 {
			t.Errorf("at the end the group is of %d", n)
		}
		if n, _ := group(0); n != 0 {
			t.Errorf("after the end there is a group of %d", n)
		}
		if err := q.addOne(false); !errors.Is(err, eventstore.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A group waits half as long as the last one took for the writers that the last one
// answered, unless they are few.
func TestGroupsAwaitThoseJustAnswered(t *testing.T) {
	t.Parallel()
	const many = minWriters + 1
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for _, g := range []struct {
			answered, n int
			took, later time.Duration
			size        int
			after       time.Duration
		}{
			{answered: 0, n: many, took: time.Second, size: many},
			{answered: many, n: 1, took: 8 * time.Millisecond, size: 1, after: 4 * time.Millisecond},
			{answered: many, n: many, took: 8 * time.Millisecond, size: many},
			{answered: many, n: many - 1, took: 8 * time.Millisecond, later: 1500 * time.Microsecond, size: many, after: 1500 * time.Microsecond},
			{answered: many, n: 1, took: time.Second, size: 1, after: maxRefill},
			{answered: many, n: minWriters, took: time.Second, size: minWriters, after: maxRefill},
			{answered: minWriters, n: 1, took: time.Second, size: 1},
		} {
			for range g.n {
				if err := q.addOne(false); err != nil {
					t.Fatal(err)
				}
			}
			if g.later > 0 {
				go func() {
					time.Sleep(g.later)
					_ = q.addOne(false)
				}()
			}
			began := time.Now()
			size := len(q.take(groupPolicy{took: g.took, awaited: g.answered}).commits)
			if after := time.Since(began); size != g.size || after != g.after {
				t.Errorf("%+v: a group of %d after %v", g, size, after)
			}
		}
	})
}

// Many commits of one kind leave room for the other kind.
func TestGroupsTakeBothSorts(t *testing.T) {
	t.Parallel()
	q := newQueue()
	for _, patient := range []bool{false, true} {
		for range maxWaiting {
			if err := q.addOne(patient); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.addOne(patient); !errors.Is(err, eventstore.ErrBusy) {
			t.Errorf("one more than %d: %v", maxWaiting, err)
		}
	}
	if g := q.take(groupPolicy{}); len(g.commits) != 2*maxWaiting || g.awaited != maxWaiting || g.patient() != maxWaiting {
		t.Errorf("a group of %d, %d awaited", len(g.commits), g.awaited)
	}
}
