package storetest

import (
	"context"
	"errors"

	"payledger/domain"
	"payledger/eventstore"
)

// checkFilters: Scan and Follow show what matches and nothing else.
func checkFilters(s *subject) {
	var all []eventstore.Stored
	for i := range 40 {
		st := stream([]string{"prj_a", "prj_b", "prj_c"}[i%3], i)
		if i%5 == 0 {
			st.Kind = eventstore.KindProject
		}
		all = append(all, s.add(s.commit(st, 0)))
	}
	filters := []eventstore.Filter{
		{},
		{Project: "prj_a"},
		{Kind: eventstore.KindProject},
		{Project: "prj_b", Kind: eventstore.KindPayment},
		{Project: "prj_unknown"},
		{ID: all[31].Stream.ID},
		{Kind: eventstore.KindPayment, ID: all[31].Stream.ID},
		{ID: "unknown"},
	}
	for _, f := range filters {
		for _, after := range []eventstore.Position{0, 1, 20, 39, 40, 41, 1 << 40} {
			var want []eventstore.Stored
			for _, r := range all {
				if r.Position > after && f.Matches(r.Stream) {
					want = append(want, r)
				}
			}
			s.same("Scan", s.scan(after, f), want)
			s.same("Follow", s.follow(after, f, len(want)), want)
		}
	}
	newest := func(f eventstore.Filter) (last eventstore.Position) {
		for _, r := range all {
			if f.Matches(r.Stream) {
				last = r.Position
			}
		}
		return last
	}
	for _, r := range all {
		filters = append(filters, eventstore.Filter{ID: r.Stream.ID})
	}
	check := func(when string) (known int) {
		for _, f := range filters {
			got := s.lastOf(f)
			if got < newest(f) || got > s.last() {
				s.Errorf("LastOf(%+v) %s: %d, want %d to %d", f, when, got, newest(f), s.last())
			}
			if f.ID != "" && got == newest(f) {
				known++
			}
		}
		return known
	}
	if known := check("of new records"); known < len(all)/2 {
		s.Errorf("LastOf knows the last records of %d new streams, want most of %d", known, len(all))
	}
	s.reopen()
	check("of an opened log")
}

var errEnough = errors.New("enough")

// follow takes n records.
func (s *subject) follow(after eventstore.Position, f eventstore.Filter, n int) []eventstore.Stored {
	s.Helper()
	var got []eventstore.Stored
	if n == 0 {
		return nil
	}
	err := s.store.Follow(s.Context(), after, f, func(r eventstore.Stored) error {
		if got = append(got, r); len(got) == n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		s.Fatalf("Follow(%d): %v, want fn's error", after, err)
	}
	return got
}

// checkFollow: from every position, across a restart, first what is there and
// then what comes.
func checkFollow(s *subject) {
	var all []eventstore.Stored
	for i := range 12 {
		all = append(all, s.add(s.commit(stream("prj_a", i), 0)))
	}
	for range 2 {
		for after := range all {
			s.same("Follow", s.follow(eventstore.Position(after), eventstore.Filter{}, len(all)-after), all[after:])
		}
		s.reopen()
	}
	future := eventstore.Position(len(all) + 1)
	got := make(chan eventstore.Stored, 1)
	store := s.store
	go func() {
		_ = store.Follow(s.Context(), future, eventstore.Filter{}, func(r eventstore.Stored) error {
			got <- r
			return errEnough
		})
	}()
	s.add(s.commit(stream("prj_a", 100), 0))
	want := s.add(s.commit(stream("prj_a", 101), 0))
	s.same("Follow from the future", <-got, want)
}

// checkFollowWoken: followers that have caught up get each new record when it comes, and a filter
// does not stop them.
func checkFollowWoken(s *subject) {
	const followers, rounds = 8, 30
	ctx, cancel := context.WithCancel(s.Context())
	got := make([]chan eventstore.Stored, followers)
	ended := make(chan error, followers)
	store := s.store
	for i := range got {
		got[i] = make(chan eventstore.Stored)
		f := eventstore.Filter{Project: []string{"", "prj_a"}[i%2]}
		go func() {
			ended <- store.Follow(ctx, 0, f, func(r eventstore.Stored) error {
				select {
				case got[i] <- r:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}()
	}
	for round := range rounds {
		hidden := s.add(s.commit(stream("prj_b", round), 0))
		shown := s.add(s.commit(stream("prj_a", round), 0))
		for i := range got {
			if i%2 == 0 {
				s.same("an unfiltered follower", <-got[i], hidden)
			}
			s.same("a follower", <-got[i], shown)
		}
	}
	cancel()
	for range got {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			s.Errorf("Follow answered %v after its context ended", err)
		}
	}
}

// reads calls every reading method and answers their errors.
func (s *subject) reads(ctx context.Context, st eventstore.Stream) map[string]error {
	errs := map[string]error{"Load": nil, "Scan": nil}
	for _, err := range s.store.Load(ctx, st) {
		errs["Load"] = err
	}
	for _, err := range s.store.Scan(ctx, 0, eventstore.Filter{}) {
		errs["Scan"] = err
	}
	_, _, errs["Claimed"] = s.store.Claimed(ctx, st.Project, domain.Digest{})
	_, errs["Last"] = s.store.Last(ctx)
	_, errs["LastOf"] = s.store.LastOf(ctx, eventstore.Filter{ID: st.ID})
	errs["Follow"] = s.store.Follow(ctx, 0, eventstore.Filter{}, func(eventstore.Stored) error { return nil })
	return errs
}

// checkCancel: an ended context stops waiting at once; what was under way may
// still become durable, and sending it again settles it.
func checkCancel(s *subject) {
	ended, cancel := context.WithCancel(s.Context())
	cancel()
	st := stream("prj_a", 1)
	if _, err := eventstore.AppendOne(ended, s.store, s.commit(st, 0)); !errors.Is(err, context.Canceled) {
		s.Errorf("Append with an ended context: %v", err)
	}
	if p := s.last(); p != 0 {
		s.Errorf("Append with an ended context wrote %d records", p)
	}
	s.add(s.commit(st, 0))
	for method, err := range s.reads(ended, st) {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s with an ended context: %v", method, err)
		}
	}

	held, release := s.stall()
	ctx, cancel := context.WithCancel(s.Context())
	underWay, waiting := s.claiming(stream("prj_a", 2), 0, 1), s.claiming(stream("prj_a", 3), 0, 2)
	a := s.startWith(ctx, underWay)
	<-held
	b := s.startWith(ctx, waiting)
	s.queuedUp(release, func() bool { return s.log.Waiting(s.store) == 1 })
	cancel()
	for _, x := range []*started{a, b} {
		if err := x.wait().err; !errors.Is(err, context.Canceled) {
			s.Errorf("Append answered %v when its context ended", err)
		}
	}
	release()
	for range 2 {
		for _, c := range []eventstore.Commit{underWay, waiting} {
			r := s.add(c)
			s.same("Load", s.load(c.Record.Stream), []eventstore.Stored{r})
		}
		if p := s.last(); p != 3 {
			s.Errorf("Last = %d, want 3", p)
		}
		s.reopen()
	}
}

// checkClose: Close ends followers, lets commits under way finish, and
// everything after it answers ErrClosed.
func checkClose(s *subject) {
	st := stream("prj_a", 1)
	first := s.add(s.commit(st, 0))
	following := make(chan error, 1)
	seen := make(chan eventstore.Stored, 3)
	store := s.store
	go func() {
		following <- store.Follow(s.Context(), 0, eventstore.Filter{}, func(r eventstore.Stored) error {
			seen <- r
			return nil
		})
	}()
	<-seen
	held, queued, release := s.hold(s.commit(st, first.Position), s.commit(stream("prj_a", 2), 0))
	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	if err := <-following; !errors.Is(err, eventstore.ErrClosed) {
		s.Errorf("Follow answered %v at Close", err)
	}
	select {
	case err := <-closed:
		s.Errorf("Close did not wait for the commit under way, it answered %v", err)
	default:
	}
	release()
	if err := <-closed; err != nil {
		s.Errorf("Close: %v", err)
	}
	for _, a := range append(queued, held) {
		if err := a.wait().err; err != nil {
			s.Errorf("a commit from before Close: %v", err)
		}
	}
	if err := store.Close(); err != nil {
		s.Errorf("Close again: %v", err)
	}
	for method, err := range s.reads(s.Context(), st) {
		if !errors.Is(err, eventstore.ErrClosed) {
			s.Errorf("%s after Close: %v", method, err)
		}
	}
	if _, err := eventstore.AppendOne(s.Context(), store, s.commit(st, 0)); !errors.Is(err, eventstore.ErrClosed) {
		s.Errorf("Append after Close: %v", err)
	}
	s.open()
	if p := s.last(); p != 3 {
		s.Errorf("Last = %d, want 3", p)
	}
	for _, err := range s.store.Scan(s.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			if !errors.Is(err, eventstore.ErrClosed) {
				s.Errorf("Scan across Close: %v", err)
			}
			break
		}
		_ = s.store.Close()
	}
	s.open()
}
