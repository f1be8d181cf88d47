package eventstore

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"testing"
)

func positions(n int, err error) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		for i := range n {
			if !yield(Stored{Position: Position(i + 1)}, nil) {
				return
			}
		}
		if err != nil {
			yield(Stored{}, err)
		}
	}
}

// Results come in the order of the records, whatever the order of the workers, and
// an error comes after all records before it.
func TestAheadKeepsTheOrder(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	slowly := func(r Stored) Position {
		if r.Position%aheadSize == 1 {
			for range r.Position % 7 * 100 {
				runtime.Gosched()
			}
		}
		return r.Position
	}
	for _, end := range []error{nil, broken} {
		for _, n := range []int{0, 1, aheadSize - 1, aheadSize, aheadSize + 1, 50 * aheadSize} {
			next, last := Position(1), error(nil)
			for p, err := range Ahead(t.Context(), positions(n, end), slowly) {
				if last = err; err == nil && p != next {
					t.Fatalf("of %d: %d in place of %d", n, p, next)
				}
				if err == nil {
					next++
				}
			}
			if int(next) != n+1 || !errors.Is(last, end) {
				t.Errorf("of %d: %d came, then %v, want %v", n, next-1, last, end)
			}
		}
	}
}

// When the caller stops or the context ends, no goroutine is left: TestMain checks
// for leaks.
func TestAheadEnds(t *testing.T) {
	t.Parallel()
	work := func(r Stored) Position { return r.Position }
	for p, err := range Ahead(t.Context(), positions(1<<20, nil), work) {
		if p == 3 || err != nil {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var last error
	for p, err := range Ahead(ctx, positions(1<<20, nil), work) {
		if last = err; p == 3 {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("after the context ended: %v", last)
	}
	cancel()
}
