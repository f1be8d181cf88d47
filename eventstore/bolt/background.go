package bolt

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

const (
	// watchEvery is how often the file's name is checked while nothing is
	// committed.
	watchEvery = time.Second
	// checkEvery is how often the whole log is read again.
	checkEvery = 24 * time.Hour
	// A check's pauses are this many times as long as its work: it pauses half of the time while it
	// keeps pages from being reused, else, when it reads the whole log, nine tenths, so that it takes
	// a tenth of a processor and of the disk.
	fastPause, slowPause = 1, 9
	// checkWork is how long a check works between two pauses.
	checkWork = 5 * time.Millisecond
)

// ReplacedError: the log's file lost its name while it was open.
type ReplacedError struct {
	Path string
	Why  error
}

func (e *ReplacedError) Error() string {
	return e.Path + ", the event log, is gone: " + e.Why.Error() + " while the server ran. Everything that was acknowledged is in the file that " +
		"this process still has open, and nowhere else. If the file was moved, move it back to " + e.Path + " and start again. Else do not stop " +
		"the server before \"payledger backup FILE --data " + filepath.Dir(e.Path) + "\" has copied it; then stop it and restore the copy " +
		"with \"payledger restore FILE --data " + filepath.Dir(e.Path) + "\""
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
		_ = s.checkPlace()
	}
}

// checkPlace says why no commit can be made any more. If the file lost its name, commits are
// suspended: what was acknowledged is in it as long as it is open.
func (s *Store) checkPlace() error {
	err := s.file.InPlace()
	switch {
	case err == nil:
	case errors.As(err, new(*boltfile.ReplacedError)):
		s.suspend(&ReplacedError{s.path, err})
	default:
		s.fail(s.broke(err))
	}
	return s.stopped()
}

// checkInBackground looks for damage while the log is in use. First it does what would have taken
// Open too long: it finds the free pages, for which commits wait, then it checks the pages that a
// commit may free. Until then none of these is overwritten, and damage in them suspends commits.
// Damage to records and heads does not: commits cannot make it worse, and only reading them fails.
func (s *Store) checkInBackground() {
	awaited, fast, slow := &pace{end: s.closing}, &pace{end: s.closing, factor: fastPause}, &pace{end: s.closing, factor: slowPause}
	select {
	case <-s.sound: // Open has checked
	default:
		s.suspendIf(s.file.Check(boltfile.Check{Leaves: func(string) bool { return false }, Pace: awaited.pause}))
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
		s.suspend(fmt.Errorf("writing could destroy the log: %w", s.broke(err)))
	}
}

func (s *Store) suspend(why error) {
	e := &eventstore.SuspendedError{Err: why}
	if s.suspended.CompareAndSwap(nil, e) {
		s.report(e)
	}
}

// pace makes a check pause.
type pace struct {
	end    <-chan struct{}
	factor int       // a pause is this many times as long as the work before it
	began  time.Time // the work since the last pause
}

// pause waits from time to time. It returns an error once the store is being closed.
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
