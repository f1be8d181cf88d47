package bolt

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"payledger/eventstore"
)

func waitingOf(patient bool) *pending {
	p := newPending()
	p.commit.Patient = patient
	return p
}

func (q *queue) add(p *pending) error {
	done := make([]eventstore.Appended, 1)
	q.addAll([]*pending{p}, done)
	return done[0].Err
}

// Patient commits leave with the next one that is not, or together once they
// have waited twice as long as the last group took.
func TestPatientCommitsShareAGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		add := func(patient bool) {
			if err := q.add(waitingOf(patient)); err != nil {
				t.Fatal(err)
			}
		}
		group := func(took time.Duration) (n int, after time.Duration) {
			began := time.Now()
			n = len(q.take(took))
			return n, time.Since(began)
		}
		add(true)
		if n, after := group(3 * time.Millisecond); n != 1 || after != leastPatience {
			t.Errorf("the first patient commit left after %v in a group of %d", after, n)
		}
		add(true)
		add(true)
		if n, after := group(0); n != 2 || after != 6*time.Millisecond {
			t.Errorf("two patient commits left after %v in a group of %d", after, n)
		}
		add(true)
		time.Sleep(leastPatience / 2)
		add(false)
		if n, after := group(time.Hour); n != 2 || after != 0 {
			t.Errorf("with another commit they left after %v in a group of %d", after, n)
		}
		add(true)
		if n, after := group(0); n != 1 || after != mostPatience {
			t.Errorf("behind a slow group it left after %v in a group of %d", after, n)
		}
		for range maxPatient {
			add(true)
		}
		if n, after := group(0); n != maxPatient || after != 0 {
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
	})
}

// A group waits for those that the one before answered, unless they are few,
// half as long as that one took.
func TestGroupsAwaitThoseJustAnswered(t *testing.T) {
	t.Parallel()
	const many = fewAnswered + 1
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		group := func(n int, took, later time.Duration) (size int, after time.Duration) {
			for range n {
				if err := q.add(waitingOf(false)); err != nil {
					t.Fatal(err)
				}
			}
			if later > 0 {
				go func() {
					time.Sleep(later)
					_ = q.add(waitingOf(false))
				}()
			}
			began := time.Now()
			size = len(q.take(took))
			return size, time.Since(began)
		}
		for _, g := range []struct {
			n           int
			took, later time.Duration
			size        int
			after       time.Duration
		}{
			{n: many, took: time.Second, size: many},
			{n: 1, took: 8 * time.Millisecond, size: 1, after: 4 * time.Millisecond},
			{n: many, took: 8 * time.Millisecond, size: many},
			{n: many - 1, took: 8 * time.Millisecond, later: 1500 * time.Microsecond, size: many, after: 2 * time.Millisecond},
			{n: 1, took: time.Second, size: 1, after: mostRefill},
			{n: fewAnswered, took: time.Second, size: fewAnswered},
			{n: 1, took: time.Second, size: 1},
		} {
			if size, after := group(g.n, g.took, g.later); size != g.size || after != g.after {
				t.Errorf("%+v: a group of %d after %v", g, size, after)
			}
		}
	})
}

// However many of one sort there are, those of the other get their share of
// each group.
func TestGroupsTakeBothSorts(t *testing.T) {
	t.Parallel()
	q := newQueue()
	for _, patient := range []bool{false, true} {
		for range maxWaiting {
			if err := q.add(waitingOf(patient)); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.add(waitingOf(patient)); err != eventstore.ErrBusy { //nolint:errorlint // it is not wrapped
			t.Errorf("one more than %d: %v", maxWaiting, err)
		}
	}
	for range maxWaiting / maxGroup {
		sorts := make(map[bool]int)
		for _, p := range q.take(0) {
			sorts[p.commit.Patient]++
		}
		if sorts[false] != maxGroup || sorts[true] != maxGroup {
			t.Errorf("a group has %v", sorts)
		}
	}
}

// Who waits for a quick group is told of its end alone. A slow one, and those
// behind it, are told once that it takes a while.
func TestSlowGroupsTellThoseWhoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		add := func() *pending {
			p := waitingOf(false)
			if err := q.add(p); err != nil {
				t.Fatal(err)
			}
			return p
		}
		told := func(p *pending) (all []news) {
			for len(p.told) > 0 {
				all = append(all, <-p.told)
			}
			return all
		}
		commit := func(took time.Duration) {
			group := q.take(0)
			time.Sleep(took)
			synctest.Wait()
			q.answer(group)
		}
		quick := add()
		commit(slowGroup - 1)
		var behind, later *pending
		slow := add()
		go func() {
			time.Sleep(slowGroup / 2)
			behind = add()
			time.Sleep(slowGroup)
			later = add()
		}()
		commit(2 * slowGroup)
		after := add()
		for _, c := range []struct {
			name string
			p    *pending
			want []news
		}{
			{"of a quick group", quick, []news{settled}},
			{"of a slow group", slow, []news{delayed, settled}},
			{"behind it", behind, []news{delayed}},
			{"late behind it", later, []news{delayed}},
			{"after it", after, nil},
		} {
			if got := told(c.p); !slices.Equal(got, c.want) {
				t.Errorf("a commit %s was told %v, want %v", c.name, got, c.want)
			}
		}
		commit(2 * slowGroup)
		if got := told(behind); !slices.Equal(got, []news{settled}) {
			t.Errorf("in another slow group it was told %v", got)
		}
	})
}
