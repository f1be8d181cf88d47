package bolt

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"payledger/domain"
	"payledger/eventstore"
)

// When the newest claims go from memory into a run: the next start reads no
// more records again than these and those that come while a run is written.
const (
	freshClaims  = 1 << 15
	freshRecords = 1 << 16

	// While the index is made anew more of them go at once.
	renewedClaims = 1 << 19

	// Runs are merged until each is this many times as long as the next one, but
	// none gets more claims than that: its filter is made in memory.
	runGrowth = 3
	runLimit  = 1 << 24

	runRetry = time.Second // after a run could not be written
)

// claimIndex finds the record that claimed a key: in memory the newest, in
// runs the others. The committer alone adds claims; it does so before they are
// durable, so whoever else asks leaves out what is not.
type claimIndex struct {
	kind

	dir  string
	fail func(error) // the index is damaged: the process must end

	mu     sync.RWMutex
	spans  spans
	fresh  map[claimName]eventstore.Position
	frozen map[claimName]eventstore.Position // on its way into a run
	runs   []*run                            // oldest first
	closed bool
	gap    error // a record that could have claimed a key cannot be read

	next eventstore.Position // where the records of fresh begin; the committer's

	batches chan *claimBatch
	working sync.WaitGroup
	stop    chan struct{}
}

// claimBatch is what was claimed within a part of the log.
type claimBatch struct {
	runSpan
	claims  map[claimName]eventstore.Position
	written bool
}

func claimsDir(path string) string { return strings.TrimSuffix(path, ".db") + ".claims" }

// foreverDir is where, within that, the runs of claims for ever are.
const foreverDir = "forever"

// openClaims opens the index of a log. It answers where the records begin that
// it does not cover: they are to be told to it, with renew, before it is used.
func openClaims(dir string, k kind, s spans, holds func(eventstore.Position, domain.ID) bool, fail func(error)) (*claimIndex, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	x := &claimIndex{
		dir: dir, kind: k, fail: fail, spans: s, fresh: make(map[claimName]eventstore.Position),
		batches: make(chan *claimBatch, 1), stop: make(chan struct{}),
	}
	var err error
	x.runs, x.next, err = runsIn(dir, k, s.floor(), holds)
	return x, err
}

// renew adds the claim of a record, unless the index covers the record already.
func (x *claimIndex) renew(r eventstore.Stored) error {
	if r.Position < x.next {
		return nil
	}
	if r.Claim != nil && r.Claim.Forever == x.forever && r.Position >= x.spans.floor() {
		x.fresh[nameFor(r.Stream.Project, r.Claim)] = r.Position
	}
	if len(x.fresh) >= renewedClaims && x.gap == nil {
		return x.write(x.freeze(r.Position, r.Commit))
	}
	return nil
}

// missed notes that the record at a position cannot be read, unless the index
// covers it.
func (x *claimIndex) missed(at eventstore.Position, err error) {
	if at >= x.next {
		x.gap = cmp.Or(x.gap, err)
	}
}

// find answers the record that claimed the key of that name, 0 if there is
// none.
func (x *claimIndex) find(name claimName) (eventstore.Position, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return 0, eventstore.ErrClosed
	}
	at := max(x.fresh[name], x.frozen[name])
	for i := len(x.runs) - 1; at == 0 && i >= 0; i-- {
		var err error
		if at, err = x.runs[i].find(name); err != nil {
			x.damaged(err)
			return 0, err
		}
	}
	if at < x.spans.floor() {
		return 0, x.gap
	}
	return at, nil
}

// floor is where the records begin whose keys are remembered now.
func (x *claimIndex) floor() eventstore.Position {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.spans.floor()
}

// add notes that the record at a position claims the key of that name. It
// answers the spans if they changed.
func (x *claimIndex) add(name claimName, newest domain.ID, at eventstore.Position) (changed spans) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fresh[name] = at
	if x.forever {
		return nil
	}
	var begun bool
	if x.spans, begun = x.spans.claim(newest, at); begun {
		return x.spans
	}
	return nil
}

// settled tells that all up to the last record is durable.
func (x *claimIndex) settled(last eventstore.Stored) {
	if len(x.fresh) < freshClaims && last.Position < x.next+freshRecords {
		return
	}
	x.mu.RLock()
	busy := x.frozen != nil || x.gap != nil
	x.mu.RUnlock()
	if !busy {
		x.batches <- x.freeze(last.Position, last.Commit)
	}
}

func (x *claimIndex) freeze(to eventstore.Position, event domain.ID) *claimBatch {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := &claimBatch{runSpan: runSpan{x.kind, x.next, to, event}, claims: x.fresh}
	x.frozen, x.fresh = x.fresh, make(map[claimName]eventstore.Position, freshClaims)
	x.next = to + 1
	return b
}

// begin lets the index write its runs, until end.
func (x *claimIndex) begin() {
	x.working.Go(func() {
		for b := range x.batches {
			for {
				err := x.write(b)
				if err == nil {
					break
				}
				if x.damaged(err) {
					return
				}
				// What is not written is read again at the next start.
				select {
				case <-x.stop:
					return
				case <-time.After(runRetry):
				}
			}
		}
	})
}

// end waits for what is under way. The committer has ended, and nobody asks
// any more.
func (x *claimIndex) end() {
	close(x.stop)
	close(x.batches)
	x.working.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range x.runs {
		r.unmap()
	}
	x.runs, x.closed = nil, true
}

// write makes a batch a run, unless that was done, and merges the runs.
func (x *claimIndex) write(b *claimBatch) error {
	x.mu.RLock()
	runs, floor := x.runs, x.spans.floor()
	x.mu.RUnlock()
	if !b.written {
		r, err := writeRun(x.dir, b.runSpan, floor, len(b.claims), b.ordered(), x.stop)
		if err != nil {
			return err
		}
		runs = append(slices.Clip(runs), r)
		x.mu.Lock()
		x.runs, x.frozen = runs, nil
		x.mu.Unlock()
		b.written = true
	}
	for n := len(runs); n >= 2; n = len(runs) {
		older, newer := runs[n-2], runs[n-1]
		if older.entries > runGrowth*newer.entries || older.entries+newer.entries > runLimit {
			break
		}
		s := runSpan{x.kind, older.from, newer.to, newer.event}
		r, err := writeRun(x.dir, s, floor, older.entries+newer.entries, merged(older, newer), x.stop)
		if err != nil {
			return err
		}
		runs = append(runs[:n-2:n-2], r)
		x.show(runs)
		older.remove()
		newer.remove()
	}
	for len(runs) > 1 && runs[0].to < floor {
		old := runs[0]
		runs = runs[1:]
		x.show(runs)
		old.remove()
	}
	return nil
}

// show lets readers use these runs. Nobody reads others when it is done.
func (x *claimIndex) show(runs []*run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs = runs
}

func (b *claimBatch) ordered() iter.Seq2[claimEntry, error] {
	entries := make([]claimEntry, 0, len(b.claims))
	for name, at := range b.claims {
		entries = append(entries, claimEntry{name, at})
	}
	slices.SortFunc(entries, claimEntry.compare)
	return func(yield func(claimEntry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// damaged reports whether the error is about a run. That one is deleted, so
// that the next start makes the index anew.
func (x *claimIndex) damaged(err error) bool {
	d, ok := errors.AsType[*damagedRun](err)
	if ok {
		_ = os.Remove(d.path)
		x.fail(fmt.Errorf("%w; it was deleted and is made anew at the next start", err))
	}
	return ok
}
