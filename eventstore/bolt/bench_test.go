package bolt

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"payledger/domain"
	"payledger/eventstore"
)

// plainFile is the baseline: the least work of a durable group commit. One goroutine
// appends all waiting records to a file and syncs once.
type plainFile struct {
	file  *os.File
	mu    sync.Mutex
	ready *sync.Cond
	group []waiting
	done  bool
}

type waiting struct {
	body   []byte
	result chan error
}

func (f *plainFile) append(body []byte) error {
	w := waiting{body: body, result: make(chan error, 1)}
	f.mu.Lock()
	f.group = append(f.group, w)
	f.ready.Signal()
	f.mu.Unlock()
	return <-w.result
}

func (f *plainFile) run() {
	var buffer []byte
	for {
		f.mu.Lock()
		for len(f.group) == 0 && !f.done {
			f.ready.Wait()
		}
		group := f.group
		f.group = nil
		f.mu.Unlock()
		if group == nil {
			return
		}
		buffer = buffer[:0]
		for _, w := range group {
			buffer = append(buffer, w.body...)
		}
		_, err := f.file.Write(buffer)
		if err == nil {
			err = unix.Fdatasync(int(f.file.Fd()))
		}
		for _, w := range group {
			w.result <- err
		}
	}
}

// BenchmarkAppend appends records of 700 bytes with a claim. Each opens a stream: in
// the store alone; in the store while a patient writer adds a second record to each
// stream, as the router does; and on the baseline. Each writer has its own context,
// as a request has.
func BenchmarkAppend(b *testing.B) {
	body := make([]byte, 700)
	for i := range body {
		body[i] = byte('a' + i%26)
	}
	for _, writers := range []int{1, 16, 64, 256} {
		for _, followed := range []bool{false, true} {
			name := "bolt"
			if followed {
				name = "followed"
			}
			b.Run(fmt.Sprintf("%s/writers=%d", name, writers), func(b *testing.B) {
				benchmarkStore(b, writers, followed, body)
			})
		}
		b.Run(fmt.Sprintf("plain/writers=%d", writers), func(b *testing.B) {
			file, err := os.Create(filepath.Join(b.TempDir(), "plain"))
			if err != nil {
				b.Fatal(err)
			}
			f := &plainFile{file: file}
			f.ready = sync.NewCond(&f.mu)
			var running sync.WaitGroup
			running.Go(f.run)
			parallel(b, writers, func(context.Context) error { return f.append(body) })
			f.mu.Lock()
			f.done = true
			f.ready.Signal()
			f.mu.Unlock()
			running.Wait()
			_ = file.Close()
		})
	}
}

func benchmarkStore(b *testing.B, writers int, followed bool, body []byte) {
	s := reopened(b, newLog(b))
	ids := domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	var following sync.WaitGroup
	ctx, cancel := context.WithCancel(b.Context())
	if followed {
		following.Go(func() { follow(b, ctx, s, ids, body[:200]) })
	}
	parallel(b, writers, func(ctx context.Context) error {
		if followed && writers == 1 {
			awayFor(200 * time.Microsecond)
		}
		id := ids.Next()
		c := eventstore.Commit{
			ID: id, Claim: &eventstore.Claim{Key: sha256.Sum256(id[:])},
			Record: eventstore.Record{Stream: eventstore.PaymentStream("prj_01M7W78FJBM8T4R7B5N0C1D2E3", id), Body: body},
		}
		_, err := eventstore.AppendOne(ctx, s, c)
		return err
	})
	cancel()
	following.Wait()
	if err := s.file.View(func(tx *bbolt.Tx) error {
		b.ReportMetric(float64(b.N)/float64(tx.ID()), "commits/group")
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}

// awayFor waits for as long as a client takes to send its next request. Sleep would
// take a millisecond.
func awayFor(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
		runtime.Gosched()
	}
}

// follow adds a patient record to each new stream, all new streams in one batch.
func follow(b *testing.B, ctx context.Context, s *Store, ids *domain.IDs, body []byte) {
	created := make(chan eventstore.Stored, 1024)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(created)
		_ = s.Follow(ctx, 0, eventstore.Filter{}, func(r eventstore.Stored) error {
			if r.Sequence == 1 {
				created <- r
			}
			return nil
		})
	})
	for r := range created {
		var commits []eventstore.Commit
		for more := true; more; {
			commits = append(commits, eventstore.Commit{
				ID: ids.Next(), Patient: true, Record: eventstore.Record{Stream: r.Stream, Expect: r.Position, Body: body},
			})
			select {
			case r, more = <-created:
			default:
				more = false
			}
		}
		for _, a := range s.Append(ctx, commits...) {
			if a.Err != nil && ctx.Err() == nil {
				b.Error(a.Err)
			}
		}
	}
	reading.Wait()
}

// parallel runs b.N calls from this many goroutines.
func parallel(b *testing.B, writers int, call func(context.Context) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	used := cpuTime(b)
	b.ResetTimer()
	for range writers {
		all.Go(func() {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			for left.Add(-1) >= 0 {
				if err := call(ctx); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-used).Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// cpuTime is the processor time of the process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
