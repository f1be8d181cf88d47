package bolt

import (
	"errors"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

const (
	// watchEvery is how often the file's name is looked at while nothing is
	// committed.
	watchEvery = time.Second
	// saveEvery is how often saving a file is tried while it fails.
	saveEvery = 5 * time.Second
	// checkEvery is how often the whole log is read again.
	checkEvery = 24 * time.Hour
	// A check that keeps pages from being used again rests as long as it works.
	// Others, which read the whole log, take a tenth of a processor and as much
	// of the disk's time.
	shortRest, longRest = 1, 9
	// checkWork is how long a check works without a rest.
	checkWork = 5 * time.Millisecond
)

// ReplacedError: the log's file lost its name while it was open. Everything
// that was acknowledged is in SavedAs.
type ReplacedError struct {
	Path    string
	Why     error
	SavedAs string // "" while that is not done
}

func (e *ReplacedError) Error() string {
	if e.SavedAs == "" {
		return e.Path + ", the event log, is gone: " + e.Why.Error() + " while the server ran; what is open is being saved"
	}
	return e.Path + ", the event log, is gone: " + e.Why.Error() + " while the server ran. Everything that was acknowledged is in " +
		e.SavedAs + ": move that to " + e.Path + " and start again"
}

func (e *ReplacedError) Unwrap() error { return e.Why }

// broke says more about an error of the file that ends the store.
func (s *Store) broke(err error) error {
	if !boltfile.Damaged(err) {
		return err
	}
	return &OpenError{
		Path: s.path, Err: ErrDamaged, Detail: err.Error(),
		Advice: "keep a copy of the file and restore the newest backup",
	}
}

// replaced makes the store refuse everything, and answers what that is refused
// with. The process may not end before the file is saved.
func (s *Store) replaced(why error) error {
	s.failure.CompareAndSwap(nil, &eventstore.FatalError{Err: &ReplacedError{Path: s.path, Why: why}})
	return s.Err()
}

// save gives the file another name, however long that takes: as long as this
// process runs, nothing is lost. Then the store is at its end. writing is held.
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
			// Whoever closes the store ends the process, whatever becomes of
			// the file.
			s.end()
			return
		}
	}
}

// Saving reports whether the file lost its name and is being saved: the end of
// the process would lose it.
func (s *Store) Saving() bool { return s.saving.Load() }

// watch notices between commits that the file lost its name, or was cut off.
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
			_ = s.lastLook()
		}
	}
}

// lastLook saves the file if it lost its name, and answers that.
func (s *Store) lastLook() error {
	if s.readOnly || s.yields || s.file.Err() != nil {
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

// checkBeside looks for damage while the log is used. First comes what was too
// much for Open: which pages are free, for which commits wait, then the pages
// that a commit may free. While these are looked at none of them is written
// over, and damage there suspends commits. Damage to records and heads does
// not: commits make nothing worse, and only what reads them fails.
func (s *Store) checkBeside() {
	short, long := &pace{end: s.closing, factor: shortRest}, &pace{end: s.closing, factor: longRest}
	select {
	case <-s.sound: // Open has looked
	default:
		s.judge(s.file.Check(boltfile.Check{Leaves: func(string) bool { return false }, Pace: short.ended}))
		close(s.sound)
		s.judge(s.file.Check(boltfile.Check{Leaves: notRecords, Pace: short.rest}))
	}
	for {
		if err := s.verifyRecords(long.rest); errors.As(err, new(*eventstore.CorruptError)) {
			s.damaged.Store(true)
			s.report(err)
		}
		select {
		case <-s.closing:
			return
		case <-time.After(checkEvery):
		}
		s.judge(s.file.Check(boltfile.Check{Leaves: notRecords, Pace: short.rest}))
	}
}

// judge suspends commits if the error says that the file is damaged.
func (s *Store) judge(err error) {
	if boltfile.Damaged(err) {
		s.damaged.Store(true)
		e := &eventstore.SuspendedError{Err: s.broke(err)}
		if s.suspended.CompareAndSwap(nil, e) {
			s.report(e)
		}
	}
}

// pace lets a check rest.
type pace struct {
	end    <-chan struct{}
	factor int
	began  time.Time // to work
}

// ended answers an error once the check is not wanted any more.
func (p *pace) ended() error {
	select {
	case <-p.end:
		return eventstore.ErrClosed
	default:
		return nil
	}
}

// rest is ended, and from time to time takes a while.
func (p *pace) rest() error {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	worked := time.Since(p.began)
	if worked < checkWork {
		return nil
	}
	rest := time.NewTimer(time.Duration(p.factor) * worked)
	defer rest.Stop()
	select {
	case <-p.end:
		return eventstore.ErrClosed
	case <-rest.C:
	}
	p.began = time.Now()
	return nil
}
