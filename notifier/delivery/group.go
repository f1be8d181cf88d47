package delivery

import (
	"context"
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
	patience   = 20 * time.Millisecond
)

// After a group the writer rests for so long: those that come meanwhile share a
// transaction, and its syncs. So who is told of much, or does not listen, costs
// the others and the log's own syncs no more of the disk. Urgent operations wait
// for the end of the rest after the last ones only, and take all others with
// them; those let the rest pass once more, so as to go with the next: what becomes
// of slow endpoints holds nobody up. Where there is little to do nobody waits.
const rest = 10 * time.Millisecond

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
	w.wake.Signal()
	w.mu.Unlock()
	return <-p.done
}

// ready says how long it is until a group should leave, idle if nothing waits.
// w.mu is held.
func (w *writer) ready() time.Duration {
	switch {
	case w.closed:
		return 0
	case len(w.urgent) > 0:
		return time.Until(w.urgentAt)
	case len(w.starts) > 0 || len(w.patient) >= maxPatient || w.overdue:
		return max(time.Until(w.restAt), time.Until(w.urgentAt.Add(rest)))
	}
	return idle
}

// ring ends the patience of those that wait.
func (w *writer) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.overdue = len(w.patient) > 0; w.overdue {
		w.wake.Signal()
	}
}

// look lets the writer see whether its rest is over.
func (w *writer) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake.Signal()
}

// take waits for operations, and for the end of the writer's rest; none: closed,
// and nothing waits.
func (w *writer) take() (group []*waiting, urgent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy.Store(false)
	for {
		wait := w.ready()
		if wait <= 0 {
			break
		}
		w.busy.Store(wait < idle)
		w.alarm.Reset(wait)
		w.wake.Wait()
	}
	w.gather()
	urgent = len(w.urgent) > 0
	return w.group(), urgent
}

// rest waits for the end of the writer's rest: what is handed over then need
// not wait, and more can be handed over at once.
func (w *writer) rest(ctx context.Context) {
	w.mu.Lock()
	wait := time.Until(w.urgentAt)
	w.mu.Unlock()
	sleep(ctx, wait)
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
