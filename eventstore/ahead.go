package eventstore

import (
	"context"
	"iter"
	"runtime"
	"sync"
)

// aheadSize is the number of records in a worker's batch.
const aheadSize = 128

type aheadBatch[In, Out any] struct {
	records []In
	made    []Out
	err     error // of the log, after the records
	done    chan struct{}
}

// Ahead yields the result of work for each record, in the order of the log. It
// runs work on all processors, up to a few thousand records ahead of the caller.
// An error of the log or of ctx comes after the results of the records before
// it. All its goroutines have ended when the iteration ends.
func Ahead[In, Out any](ctx context.Context, log iter.Seq2[In, error], work func(In) Out) iter.Seq2[Out, error] {
	return func(yield func(Out, error) bool) {
		workers := runtime.GOMAXPROCS(0)
		ctx, cancel := context.WithCancel(ctx)
		todo, inOrder := make(chan *aheadBatch[In, Out], 4*workers), make(chan *aheadBatch[In, Out], 8*workers)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() {
			defer close(inOrder)
			defer close(todo)
			inBatches(log, func(b *aheadBatch[In, Out]) bool {
				for _, to := range []chan *aheadBatch[In, Out]{todo, inOrder} {
					select {
					case to <- b:
					case <-ctx.Done():
						return false
					}
				}
				return true
			})
		})
		for range workers {
			running.Go(func() {
				for b := range todo {
					for _, r := range b.records {
						b.made = append(b.made, work(r))
					}
					close(b.done)
				}
			})
		}
		var none Out
		for b := range inOrder {
			<-b.done
			for _, made := range b.made {
				if !yield(made, nil) {
					return
				}
			}
			if b.err != nil {
				yield(none, b.err)
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(none, err)
		}
	}
}

// inBatches sends the log in batches until it ends or send returns false.
func inBatches[In, Out any](log iter.Seq2[In, error], send func(*aheadBatch[In, Out]) bool) {
	next := func() *aheadBatch[In, Out] {
		return &aheadBatch[In, Out]{records: make([]In, 0, aheadSize), made: make([]Out, 0, aheadSize), done: make(chan struct{})}
	}
	b := next()
	for r, err := range log {
		if err != nil {
			b.err = err
			break
		}
		if b.records = append(b.records, r); len(b.records) == aheadSize {
			if !send(b) {
				return
			}
			b = next()
		}
	}
	send(b)
}
