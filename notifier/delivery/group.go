package delivery

import (
	"runtime"
	"slices"
	"time"
)

// A transaction of the lane file costs about as much as ten of the operations
// in it. So what can wait a little does, and what comes at the same time goes
// together.

// maxGroup bounds the operations of one transaction.
const maxGroup = 4096

// Patient operations, which nobody is kept waiting by, go with the next that
// is not, when so many wait, or after this time.
const (
	maxPatient = 256
	patience   = 10 * time.Millisecond
)

// After a group that had to wait for the one before, the writer rests, restEach
// for each lane that was changed, though no longer than mostRest: those that
// come meanwhile share a transaction, and its sync. Where there is little to do
// nobody waits.
const (
	restEach = 100 * time.Microsecond
	mostRest = 10 * time.Millisecond
)

// maxStarts bounds the lanes that begin in one transaction. Where the machine
// is busy, transactions come more seldom, and the rest waits: webhooks leave
// it to the API then. A lane that waits is told of its newest state alone.
const maxStarts = 256

// join puts an operation in line and waits for its end.
func (w *writer) join(line *[]*waiting, o op) error {
	p := &waiting{op: o, done: make(chan error, 1)}
	w.mu.Lock()
	switch {
	case w.err != nil:
		defer w.mu.Unlock()
		return w.err
	case w.closed:
		w.mu.Unlock()
		return ErrClosed
	}
	*line = append(*line, p)
	if line == &w.patient && len(w.patient) == 1 {
		w.timer.Reset(patience)
	}
	if w.ready() {
		w.wake.Signal()
	}
	w.mu.Unlock()
	return <-p.done
}

// ready reports whether a group should leave. w.mu is held.
func (w *writer) ready() bool {
	return len(w.urgent) > 0 || len(w.starts) > 0 || len(w.patient) >= maxPatient || w.overdue || w.closed
}

// ring ends the patience of those that wait.
func (w *writer) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.overdue = len(w.patient) > 0; w.overdue {
		w.wake.Signal()
	}
}

// take waits for operations; none: closed, and nothing waits. busy means that
// some were there already.
func (w *writer) take() (group []*waiting, busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	busy = w.ready()
	for !w.ready() {
		w.wake.Wait()
	}
	w.gather()
	return w.group(), busy
}

// group takes those off their lines that leave together. w.mu is held.
func (w *writer) group() []*waiting {
	// What ended comes first: it makes room for what begins.
	group := slices.Concat(cut(&w.patient, maxGroup), cut(&w.urgent, maxGroup), cut(&w.starts, w.startsAtOnce()))
	w.overdue = len(w.patient) > 0
	return group
}

// gather lets those who are about to come do so: a group that leaves without
// them costs another transaction.
func (w *writer) gather() {
	waiting := func() int { return len(w.urgent) + len(w.starts) }
	for n := -1; n < waiting() && n < maxGroup; {
		n = waiting()
		w.mu.Unlock()
		runtime.Gosched()
		w.mu.Lock()
	}
}

// startsAtOnce is how many of those that start attempts may leave together.
func (w *writer) startsAtOnce() int {
	n := 0
	for lanes := 0; n < len(w.starts) && lanes < maxStarts; n++ {
		lanes += len(w.starts[n].op.(*startOp).keys)
	}
	return n
}

// cut takes the first operations off a line.
func cut(line *[]*waiting, most int) []*waiting {
	n := min(len(*line), most)
	first := (*line)[:n:n]
	*line = (*line)[n:]
	return first
}
