package signals

import (
	"context"
	"sync"

	"payledger/domain"
	"payledger/eventstore"
)

// folded is the payment by which signals are judged: its stream folded up to
// last.
type folded struct {
	domain.Payment

	last       eventstore.Stored // without its body
	cause      eventstore.Cause  // the trace of last
	unrecorded uint64            // refused since the last refusal that was recorded
}

// Evolve changes f itself, which has one owner.
func (f *folded) Evolve(e domain.Event) *folded {
	f.Payment = f.Payment.Evolve(e)
	if _, ok := e.(domain.PaymentSignalRefused); ok {
		f.unrecorded = 0
	}
	return f
}

// The bounds of what folds keep.
const (
	maxFolds       = 256 // payments, of recent ones; of older ones as many
	minFoldRecords = 32  // records: a shorter stream is read again as quickly
)

// folds keep the payments with long streams that had a signal recently, so that
// one more signal costs the same however many a payment has had. The log is
// asked each time for newer records. A fold has one user at a time, since two
// signals of one payment are never judged at once. Safe for concurrent use.
type folds struct {
	mu            sync.Mutex
	recent, older map[eventstore.Stream]*folded
}

func newFolds() *folds { return &folds{recent: make(map[eventstore.Stream]*folded)} }

// of folds the payment up to the end of its stream.
func (k *folds) of(ctx context.Context, l eventstore.Ledger, project string, id domain.ID) (*folded, error) {
	stream := eventstore.PaymentStream(project, id)
	f := k.take(stream)
	if f == nil {
		f = &folded{Payment: domain.Payment{Project: project, ID: id}}
	}
	f, last, err := eventstore.FoldAfter(ctx, l, stream, f, f.last)
	if err != nil {
		return nil, err // half of it may have been folded
	}
	if last.Body != nil {
		f.cause.Trace = eventstore.CauseOf(last.Body).Trace
	}
	last.Body, last.Event = nil, nil
	f.last = last
	k.keep(stream, f)
	return f, nil
}

func (k *folds) take(s eventstore.Stream) *folded {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.recent[s]
	if f != nil {
		delete(k.recent, s)
		return f
	}
	f = k.older[s]
	delete(k.older, s)
	return f
}

func (k *folds) keep(s eventstore.Stream, f *folded) {
	if f.last.Sequence <= minFoldRecords {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.recent) >= maxFolds {
		k.recent, k.older = make(map[eventstore.Stream]*folded), k.recent
	}
	k.recent[s] = f
}
