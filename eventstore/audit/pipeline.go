package audit

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/domain"
	"payledger/eventstore"
)

// item is one record, or the damage found in its place, and what a worker
// made of it.
type item struct {
	record  eventstore.Stored
	damaged *eventstore.CorruptError // in place of record

	leaf    tlog.Hash
	event   domain.Event
	err     *eventstore.CorruptError // of decoding
	payment domain.ID                // zero where the stream is no payment's
}

// batch is what a worker takes at once; done is closed when it is through.
type batch struct {
	items []item
	err   error // of the source, behind the items
	done  chan struct{}
}

const (
	batchSize   = 256
	reportEvery = 4096
)

// records reads the source, decodes and hashes in parallel, and checks in
// order. All it starts has ended when it returns.
func (c *checker) records(ctx context.Context, src Source) error {
	workers := c.options.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancel(ctx)
	todo, inOrder := make(chan *batch, workers), make(chan *batch, 2*workers)
	used := make(chan *batch, 2*workers) // to be filled again
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		defer close(inOrder)
		defer close(todo)
		read(ctx, src, used, func(b *batch) bool {
			for _, to := range []chan *batch{todo, inOrder} {
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
				b.work(c.options.Codec)
				close(b.done)
			}
		})
	}
	told := c.last
	for b := range inOrder {
		<-b.done
		for i := range b.items {
			if e := b.items[i].damaged; e != nil {
				c.damaged(e)
				continue
			}
			c.take(&b.items[i])
		}
		if b.err != nil {
			return b.err
		}
		if c.options.Progress != nil && c.last >= told+reportEvery {
			told = c.last
			c.options.Progress(c.last, max(c.last, c.options.Total))
		}
		select {
		case used <- b:
		default:
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.options.Progress != nil {
		c.options.Progress(c.last, c.last)
	}
	return nil
}

// read cuts what the source yields into batches. Behind damage it asks the
// source to go on.
func read(ctx context.Context, src Source, used <-chan *batch, send func(*batch) bool) {
	fresh := func() *batch {
		select {
		case b := <-used:
			clear(b.items)
			return &batch{items: b.items[:0], done: make(chan struct{})}
		default:
			return &batch{items: make([]item, 0, batchSize), done: make(chan struct{})}
		}
	}
	b := fresh()
	var last eventstore.Position
	for again := true; again; {
		again = false
		for r, err := range src(last) {
			var corrupt *eventstore.CorruptError
			switch {
			case errors.As(err, &corrupt):
				b.items = append(b.items, item{damaged: corrupt})
				// A position that leads nowhere new would be met for ever.
				again = corrupt.Position > last
				last = max(last, corrupt.Position)
			case err != nil:
				b.err = err
				send(b)
				return
			default:
				last = max(last, r.Position)
				b.items = append(b.items, item{record: r})
			}
			if len(b.items) == batchSize {
				if !send(b) {
					return
				}
				b = fresh()
			}
			if again || ctx.Err() != nil {
				break
			}
		}
	}
	send(b)
}

func (b *batch) work(codec *eventstore.Codec) {
	for i := range b.items {
		it := &b.items[i]
		if it.damaged != nil {
			continue
		}
		it.leaf = tlog.RecordHash(it.record.Body)
		var err error
		if it.event, err = codec.Decode(it.record); err != nil && !errors.As(err, &it.err) {
			it.err = &eventstore.CorruptError{Position: it.record.Position, Reason: err.Error()}
		}
		if it.record.Stream.Kind == eventstore.KindPayment {
			it.payment, _ = domain.ParseID(it.record.Stream.ID)
		}
	}
}
