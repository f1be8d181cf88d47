package connectortest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
)

// faults are all but StoredError, which is only for calls with a key.
func faults() map[string]Fault {
	return map[string]Fault{
		"down": Down, "error before": ErrorBefore, "error after": ErrorAfter, "busy": Busy, "garbage": Garbage,
		"endless": Endless, "silent": Silent,
	}
}

type call func(context.Context, connector.Attempt) (connector.State, error)

func (b *bench) calls() map[string]call {
	return map[string]call{"Begin": b.connector.Begin, "Read": b.connector.Read, "Cancel": b.connector.Cancel}
}

// short is the time of a call that a silent provider must not keep.
const short = 100 * time.Millisecond

// requests is of how many requests a call is made at most, where each may fail.
const requests = 3

// during makes a call of which one request ends in a fault, after some that do
// not, and checks its error. A call has none if it makes fewer requests, or
// repeats one by itself, with its key.
func (b *bench) during(name string, f Fault, after int, call func(context.Context) error) {
	b.Helper()
	ctx := b.context()
	if f == Silent || f == Endless {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, short)
		defer cancel()
	}
	b.provider.Fault(f, after, 1)
	begun := time.Now()
	err := call(ctx)
	name = fmt.Sprintf("%s at request %d", name, after+1)
	b.provider.Fault(f, 0, 0)
	b.clean(err)
	if took := time.Since(begun); took > patience/2 {
		b.Errorf("%s: took %s", name, took)
	}

	busy, isBusy := errors.AsType[*connector.BusyError](err)
	_, isRefused := errors.AsType[*connector.RefusedError](err)
	_, isSpent := errors.AsType[*connector.SpentKeyError](err)
	switch {
	case isRefused, errors.Is(err, connector.ErrNotFound), errors.Is(err, connector.ErrForged), isSpent && f != StoredError, isBusy && f != Busy:
		b.Errorf("%s: %v; want an error that says nothing", name, err)
	case err == nil && after > 0:
	case f == Busy && (!isBusy || busy.After != time.Second):
		b.Errorf("%s: %v; want a BusyError of one second", name, err)
	case err == nil && f != Down && f != ErrorAfter && f != StoredError:
		b.Errorf("%s: no error", name)
	}
}

// beginsAfterFaults: a Begin with any outcome makes one attempt when it is repeated.
func beginsAfterFaults(b *bench) {
	for name, f := range faults() {
		a := b.attempt()
		for after := range requests { // the second call finds what the first has made
			b.during(name, f, after, func(ctx context.Context) error {
				_, err := b.connector.Begin(ctx, a)
				return err
			})
		}
		a = b.begun(a)
		b.once(a)
		b.pay(a)
		b.in(a, connector.Paid)
		b.moved(b.provider.Collected(), a, true)
	}

	a := b.attempt()
	b.during("stored error", StoredError, 0, func(ctx context.Context) error {
		_, err := b.connector.Begin(ctx, a)
		return err
	})
	s, err := b.connector.Begin(b.context(), a)
	b.clean(err)
	if _, spent := errors.AsType[*connector.SpentKeyError](err); spent {
		if got := b.provider.Attempts(a.Payment); len(got) != 0 {
			b.Errorf("the key is spent, but has made %q", got)
		}
		a = b.begun(next(a))
	} else {
		b.must(err)
		a.Reference = s.Reference
	}
	b.once(a)
}

// readsAfterFaults: a fault changes nothing of what is read next.
func readsAfterFaults(b *bench) {
	for name, f := range faults() {
		for after := range requests {
			b.readsAfter(name, f, after)
		}
	}
}

func (b *bench) readsAfter(name string, f Fault, after int) {
	a := b.begun(b.attempt())
	reads := func(ctx context.Context) error {
		_, err := b.connector.Read(ctx, a)
		return err
	}
	b.during(name+" in Read", f, after, reads)
	b.in(a, connector.Open)
	b.during(name+" in Cancel", f, after, func(ctx context.Context) error {
		_, err := b.connector.Cancel(ctx, a)
		return err
	})
	s, err := b.connector.Cancel(b.context(), a)
	b.must(err)
	b.state(s)
	if s.Phase == connector.Paid {
		b.Errorf("cancelled after %s: %+v", name, s)
	}
	b.in(a, s.Phase)
	b.moved(b.provider.Collected(), a, false)

	a = b.begun(b.attempt())
	b.pay(a)
	b.during(name+" in Read", f, after, reads)
	b.in(a, connector.Paid)
	b.during(name+" in Refunds", f, after, func(ctx context.Context) error {
		_, err := b.connector.Refunds(ctx, a)
		return err
	})
	b.moved(b.provider.Collected(), a, true)
	b.moved(b.provider.Returned(), a, false)
}

// refundsAfterFaults: a Refund with any outcome returns the money once when it is repeated.
func refundsAfterFaults(b *bench) {
	all := faults()
	all["stored error"] = StoredError
	for name, f := range all {
		for after := range requests {
			b.refundsAfter(name, f, after)
		}
	}
}

func (b *bench) refundsAfter(name string, f Fault, after int) {
	a := b.paid()
	r := b.refund(a)
	b.during(name, f, after, func(ctx context.Context) error {
		_, err := b.connector.Refund(ctx, r)
		return err
	})
	if f == StoredError {
		// The answer may stay as it is until the provider forgets the key.
		if _, err := b.connector.Refund(b.context(), r); err != nil {
			b.clean(err)
			b.provider.ForgetKeys()
		}
	}
	b.settled(r, true)
	b.moved(b.provider.Returned(), a, true)
}

// endsWithContext: no call outlives its context.
func endsWithContext(b *bench) {
	a := b.paid()
	r := b.refund(a)
	ctx, cancel := context.WithCancel(b.context())
	cancel()
	for name, call := range b.calls() {
		if _, err := call(ctx, a); !errors.Is(err, context.Canceled) {
			b.Errorf("%s: %v; want the context's error", name, err)
		}
	}
	if _, err := b.connector.Refund(ctx, r); !errors.Is(err, context.Canceled) {
		b.Errorf("Refund: %v; want the context's error", err)
	}
	if _, err := b.connector.Refunds(ctx, a); !errors.Is(err, context.Canceled) {
		b.Errorf("Refunds: %v; want the context's error", err)
	}
	b.moved(b.provider.Returned(), a, false)

	ctx, cancel = context.WithTimeout(b.context(), short)
	defer cancel()
	b.provider.Fault(Silent, 0, 1)
	if _, err := b.connector.Read(ctx, a); !errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("Read of a silent provider: %v; want the context's error", err)
	}
}

// servesMany: payments do not disturb each other.
func servesMany(b *bench) {
	const payments = 8
	done := make(chan struct{})
	for i := range payments {
		a := b.attemptOf(domain.Amount(100_00 + i))
		go func() {
			defer func() { done <- struct{}{} }()
			ctx := b.context()
			s, err := b.connector.Begin(ctx, a)
			a.Reference = s.Reference
			if err != nil || !b.provider.Pay(a.Reference) {
				b.Errorf("%+v, %v", s, err)
				return
			}
			if s, err = b.connector.Read(ctx, a); err != nil || s.Phase != connector.Paid || s.Amount != a.Amount {
				b.Errorf("%+v, %v; want %s", s, err, a.Amount)
			}
			r, err := b.connector.Refund(ctx, b.refund(a))
			if err != nil || r.Phase == connector.Closed || r.Amount != a.Amount {
				b.Errorf("%+v, %v; want %s", r, err, a.Amount)
			}
			b.moved(b.provider.Collected(), a, true)
		}()
	}
	for range payments {
		<-done
	}
}
