package bolt

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"payledger/domain"
	"payledger/eventstore"
)

// plainFile is the baseline: the least that a durable group commit can do. One
// goroutine writes whatever waits to the end of a file and syncs once.
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

// BenchmarkAppend appends records of 700 bytes with a claim, each opening a
// stream, from 1, 64 and 256 writers: in the store, and on the baseline.
func BenchmarkAppend(b *testing.B) {
	body := make([]byte, 700)
	for i := range body {
		body[i] = byte('a' + i%26)
	}
	for _, writers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("bolt/writers=%d", writers), func(b *testing.B) {
			s := reopened(b, newLog(b))
			ids := domain.NewIDs(time.Now, rand.Reader, domain.ID{})
			parallel(b, writers, func() error {
				id := ids.Next()
				c := eventstore.Commit{
					ID: id, Claim: &eventstore.Claim{Key: sha256.Sum256(id[:])},
					Record: eventstore.Record{Stream: eventstore.PaymentStream("prj_01M7W78FJBM8T4R7B5N0C1D2E3", id), Body: body},
				}
				_, err := eventstore.AppendOne(b.Context(), s, c)
				return err
			})
			if err := s.file.View(func(tx *bbolt.Tx) error {
				b.ReportMetric(float64(b.N)/float64(tx.ID()), "commits/group")
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		})
		b.Run(fmt.Sprintf("plain/writers=%d", writers), func(b *testing.B) {
			file, err := os.Create(filepath.Join(b.TempDir(), "plain"))
			if err != nil {
				b.Fatal(err)
			}
			f := &plainFile{file: file}
			f.ready = sync.NewCond(&f.mu)
			var running sync.WaitGroup
			running.Go(f.run)
			parallel(b, writers, func() error { return f.append(body) })
			f.mu.Lock()
			f.done = true
			f.ready.Signal()
			f.mu.Unlock()
			running.Wait()
			_ = file.Close()
		})
	}
}

// parallel runs b.N calls from so many goroutines.
func parallel(b *testing.B, writers int, call func() error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ResetTimer()
	for range writers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkRecord tells what the form of a record costs, and saves.
func BenchmarkRecord(b *testing.B) {
	ids := domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	id, event := ids.Pair()
	r := eventstore.Stored{
		Position: 7, Stream: eventstore.PaymentStream(projectPrefix+ids.Next().String(), id), Sequence: 1, Commit: event,
		Claim: &eventstore.Claim{Key: sha256.Sum256(id[:]), Fingerprint: sha256.Sum256(event[:])},
	}
	description, at := "order-1042", domain.IDTime(event)
	var err error
	r.Body, err = eventstore.NewCodec().Encode(r.Stream, r.Sequence, event, domain.PaymentCreated{
		CreatedAt: at, ExpiresAt: at.Add(time.Hour), Amount: 150000, Currency: domain.DefaultCurrency,
		Description: &description, Payload: domain.JSON(`{"cart":7,"customer":"c-8841"}`),
		Link:        domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
		Idempotency: &domain.Idempotency{Key: r.Claim.Key, Fingerprint: r.Claim.Fingerprint},
	})
	if err != nil {
		b.Fatal(err)
	}
	record := appendRecord(nil, &r)
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			record = appendRecord(record[:0], &r)
		}
		b.ReportMetric(float64(len(record)), "bytes")
		b.ReportMetric(float64(len(r.Body)), "body-bytes")
	})
	b.Run("decode", func(b *testing.B) {
		var d decoder
		for b.Loop() {
			if _, err := d.record(7, record); err != nil {
				b.Fatal(err)
			}
		}
	})
}
