package bolt

import (
	"errors"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

const (
	// watchEvery is how often the file's name is checked while nothing is
	// committed.
	watchEvery = time.Second
	// saveEvery is the time between two attempts to save a file.
	saveEvery = 5 * time.Second
	// checkEvery is how often the whole log is read again.
	checkEvery = 24 * time.Hour
	// A check's pauses are this many times as long as its work: it pauses half of the time while it
	// keeps pages from being reused, else, when it reads the whole log, nine tenths, so that it takes
	// a tenth of a processor and of the disk.
	fastPause, slowPause = 1, 9
	// checkWork is how long a check works between two pauses.
	checkWork = 5 * time.Millisecond
)

// ReplacedError: the log's file lost its name while it was open. Everything that
// was acknowledged is in the file SavedAs.
type ReplacedError struct {
	Path    string
	Why     error
	SavedAs string // "" while it is not saved yet
}

func (e *ReplacedError) Error() string {
	if e.SavedAs == "" {
		return e.Path + ", the event log, is gone: " + e.Why.Error() + " while the server ran; what is open is being saved"
	}
	return e.Path + ", the event log, is gone: " + e.Why.Error() + " while the server ran. Everything that was acknowledged is in " +
		e.SavedAs + ": move that to " + e.Path + " and start again"
}

func (e *ReplacedError) Unwrap() error { return e.Why }

// broke adds advice to an error that ends the store, if the file is damaged.
func (s *Store) broke(err error) error {
	if !boltfile.Damaged(err) {
		return err
	}
	return &OpenError{
		Path: s.path, Err: ErrDamaged, Detail: err.Error(),
		Advice: "keep a copy of the file and restore the newest backup",
	}
}

// replaced makes the store refuse everything, and returns the error that it
// answers from then on. The process may not end before the file is saved.
func (s *Store) replaced(why error) error {
	s.failure.CompareAndSwap(nil, &eventstore.FatalError{Err: &ReplacedError{Path: s.path, Why: why}})
	return s.Err()
}

// saveReplaced saves the file if a commit found that it had lost its name, once all callers have
// their answer. The caller holds s.writing.
func (s *Store) saveReplaced() {
	if why := s.unsaved; why != nil {
		s.unsaved = nil
		s.save(why)
	}
}

// save gives the file another name, and retries until that works: as long as this process runs,
// nothing is lost. Then Fatal is closed. The caller holds s.writing.
func (s *Store) save(why error) {
	s.saving.Store(true)
	defer s.saving.Store(false)
	for {
		name, err := s.file.Save(time.Now())
		if err == nil {
			s.failure.Store(&eventstore.FatalError{Err: &ReplacedError{Path: s.path, Why: why, SavedAs: name}})
			s.end()
			return
		}
		s.report(&UnsavedError{s.path, why, err, s.file.Descriptor().Fd()})
		select {
		case <-time.After(saveEvery):
		case <-s.closing:
			// The process is about to end, even if the file is lost.
			s.end()
			return
		}
	}
}

// Saving reports whether the file lost its name and is being saved: the end of
// the process would lose it.
func (s *Store) Saving() bool { return s.saving.Load() }

// watch notices between commits that the file lost its name or was truncated.
func (s *Store) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-s.fatal:
			return
		case <-tick.C:
		}
		if s.file.InPlace() != nil {
			_ = s.saveIfReplaced()
		}
	}
}

// saveIfReplaced saves the file if it lost its name; the error says so.
func (s *Store) saveIfReplaced() error {
	if s.readOnly || s.options.Replaceable || s.file.Err() != nil {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.Err() != nil {
		return nil
	}
	err := s.file.InPlace()
	var replaced *boltfile.ReplacedError
	switch {
	case errors.As(err, &replaced):
		_ = s.replaced(replaced)
		s.save(replaced)
		return s.Err()
	case boltfile.Damaged(err):
		s.fail(s.broke(err))
		return s.Err()
	}
	return nil
}

// checkInBackground looks for damage while the log is in use. First it does what would have taken
// Open too long: it finds the free pages, for which commits wait, then it checks the pages that a
// commit may free. Until then none of these is overwritten, and damage in them suspends commits.
// Damage to records and heads does not: commits cannot make it worse, and only reading them fails.
func (s *Store) checkInBackground() {
	fast, slow := &pace{end: s.closing, factor: fastPause}, &pace{end: s.closing, factor: slowPause}
	select {
	case <-s.sound: // Open has checked
	default:
		s.suspendIf(s.file.Check(boltfile.Check{Leaves: func(string) bool { return false }, Pace: fast.ended}))
		close(s.sound)
		s.suspendIf(s.file.Check(boltfile.Check{Leaves: notRecords, Pace: fast.pause}))
	}
	for {
		if err := s.newVerifier(rowCache, false, slow.pause).run(s); errors.As(err, new(*eventstore.CorruptError)) {
			s.damaged.Store(true)
			s.report(err)
		}
		select {
		case <-s.closing:
			return
		case <-time.After(checkEvery):
		}
		s.suspendIf(s.file.Check(boltfile.Check{Leaves: notRecords, Pace: fast.pause}))
	}
}

// suspendIf suspends commits if the error says that the file is damaged.
func (s *Store) suspendIf(err error) {
	if boltfile.Damaged(err) {
		s.damaged.Store(true)
		e := &eventstore.SuspendedError{Err: s.broke(err)}
		if s.suspended.CompareAndSwap(nil, e) {
			s.report(e)
		}
	}
}

// pace makes a check pause.
type pace struct {
	end    <-chan struct{}
	factor int       // a pause is this many times as long as the work before it
	began  time.Time // the work since the last pause
}

// ended returns an error once the store is being closed.
func (p *pace) ended() error {
	select {
	case <-p.end:
		return eventstore.ErrClosed
	default:
		return nil
	}
}

// pause is ended, and from time to time it waits.
func (p *pace) pause() error {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	worked := time.Since(p.began)
	if worked < checkWork {
		return nil
	}
	select {
	case <-p.end:
		return eventstore.ErrClosed
	case <-time.After(time.Duration(p.factor) * worked):
	}
	p.began = time.Now()
	return nil
}
