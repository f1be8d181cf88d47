package notifier

import (
	"context"
	"crypto/sha256"
	"sync"

	"payledger/domain"
	"payledger/eventstore"
)

// folded is a payment as signals are judged by: its stream folded up to last,
// with what the payment itself keeps no more.
type folded struct {
	domain.Payment

	last       eventstore.Stored
	late       map[attempt]funds // recorded as late funds, and not among the payment's Signals
	unrecorded uint64            // refused since the last refusal that was recorded
}

// attempt stands for a route and a reference: nobody can make two of one.
type attempt [16]byte

type funds struct {
	amount   domain.Amount
	currency domain.Currency
}

func attemptOf(s domain.Signal) attempt {
	sum := sha256.Sum256([]byte(s.Route + "\x00" + s.Reference)) // a route has no zero
	return attempt(sum[:])
}

// Evolve changes f itself, which has one owner.
func (f *folded) Evolve(e domain.Event) *folded {
	kept := len(f.Signals)
	f.Payment = f.Payment.Evolve(e)
	switch e := e.(type) {
	case domain.PaymentSignalRefused:
		f.unrecorded = 0
	case domain.PaymentLateFunds:
		if len(f.Signals) > kept {
			break
		}
		if f.late == nil {
			f.late = make(map[attempt]funds)
		}
		f.late[attemptOf(e.Signal)] = funds{e.Signal.Amount, e.Signal.Currency}
	}
	return f
}

// command is what a signal asks of the payment.
func (f *folded) command(s domain.Signal) domain.ApplySignal {
	c := domain.ApplySignal{Signal: s, Unrecorded: f.unrecorded}
	if s.Outcome != domain.OutcomePaid || len(f.late) == 0 {
		return c
	}
	if sum, ok := f.late[attemptOf(s)]; ok {
		earlier := s
		earlier.Amount, earlier.Currency = sum.amount, sum.currency
		c.Earlier = &earlier
	}
	return c
}

// The bounds of what folds keep.
const (
	foldsKept   = 256     // payments
	lateKept    = 1 << 18 // late funds that their payments keep no more
	foldsBeyond = 32      // records: a shorter stream is read again as quickly
)

// folds keep what was folded of the long streams used lately, so that one
// more signal costs the same however many a payment has had. The log is asked
// each time whether there is more. Who has a payment's fold is alone with it:
// two signals of one payment are not judged at the same time. Safe for
// concurrent use.
type folds struct {
	mu            sync.Mutex
	lately, older map[eventstore.Stream]*folded
	late          int // of lately
}

func newFolds() *folds { return &folds{lately: make(map[eventstore.Stream]*folded)} }

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
	last.Body, last.Event = nil, nil
	f.last = last
	k.keep(stream, f)
	return f, nil
}

func (k *folds) take(s eventstore.Stream) *folded {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.lately[s]
	if f != nil {
		delete(k.lately, s)
		k.late -= len(f.late)
		return f
	}
	f = k.older[s]
	delete(k.older, s)
	return f
}

func (k *folds) keep(s eventstore.Stream, f *folded) {
	if f.last.Sequence <= foldsBeyond {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.lately) >= foldsKept || k.late+len(f.late) > lateKept {
		k.lately, k.older, k.late = make(map[eventstore.Stream]*folded), k.lately, 0
	}
	k.lately[s] = f
	k.late += len(f.late)
}
