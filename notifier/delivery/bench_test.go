package delivery

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/webhook"
)

// instant answers at once.
type instant struct{ n atomic.Int64 }

func (s *instant) Send(context.Context, webhook.Request) webhook.Outcome {
	s.n.Add(1)
	return webhook.Outcome{Status: http.StatusOK, Delivered: true, Duration: time.Millisecond}
}

func (*instant) Check(string) error { return nil }

// BenchmarkDeliveries: what one delivery costs, from Enqueue to its record,
// with all syncs on a real disk and a sender that answers at once. Several
// payments are paid and delivered to several endpoints.
func BenchmarkDeliveries(b *testing.B) {
	for _, endpoints := range []int{1, 16} {
		b.Run(fmt.Sprintf("endpoints=%d", endpoints), func(b *testing.B) {
			w := newWorld(b)
			w.path = filepath.Join(b.TempDir(), "lanes.db") // a disk, and no memory
			var ids []string
			for i := range endpoints {
				ids = append(ids, w.endpoint(fmt.Sprintf("e%d", i), domain.KindPaymentPaid))
			}
			var events []Event
			for range b.N/endpoints + 1 {
				id := w.paid()
				p := w.last(b)
				for _, to := range ids {
					events = append(events, Event{
						Project: testProject, Endpoint: to, Payment: id, ID: p.Commit, Kind: domain.KindPaymentPaid, Sequence: p.Sequence, Position: p.Position,
					})
				}
			}
			events = events[:b.N]
			c := w.config()
			sender := new(instant)
			c.Sender, c.Limits = sender, Limits{Rate: 1e9, Burst: 1e9, Concurrency: 256}
			l, err := Open(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			w.lanes = l
			w.run()
			b.ResetTimer()
			for group := range slices.Chunk(events, 512) {
				if err := l.Enqueue(b.Context(), group[len(group)-1].Position, group); err != nil {
					b.Fatal(err)
				}
			}
			for pending := 1; pending > 0; time.Sleep(time.Millisecond) {
				pending = 0
				for _, id := range ids {
					if t := l.known(id); t != nil {
						pending += t.counted().Pending
					}
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
			if n := sender.n.Load(); n != int64(b.N) {
				b.Errorf("%d of %d were sent", n, b.N)
			}
			if err := w.end(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// directory is one project with any number of endpoints.
type directory projects.Project

func (d directory) Project(context.Context, string) (projects.Project, bool, error) {
	return projects.Project(d), true, nil
}

// last answers the newest record of the log.
func (w *world) last(b *testing.B) eventstore.Stored {
	b.Helper()
	end, err := w.ledger.Store.Last(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for r, err := range w.ledger.Store.Scan(b.Context(), end-1, eventstore.Filter{}) {
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	b.Fatal("the log is empty")
	return eventstore.Stored{}
}

// BenchmarkBlackHoles: 200 receivers over HTTP, half of which take a request
// and never answer; how much longer the slowest hundredth of the others waits
// than it does without them. It is measured in turns of five seconds, some 500
// deliveries to healthy receivers each: without silent receivers; beside them
// while they hold all the connections they can get, until the attempts time out
// and the last circuit breaker opens; beside them after that; and without them
// again. The ratio is that of the medians over the turns, of the worse of both
// phases. More iterations, of some 80 s each, make it steadier.
func BenchmarkBlackHoles(b *testing.B) {
	const shut, open, alone = 0, 1, 2 // circuit breakers; no silent receivers
	var p99 [3][]float64
	for b.Loop() {
		for _, silent := range []int{0, 100, 0} {
			r := newRig(b, 100, silent)
			for turns, phase := 0, alone; turns < 3; turns++ {
				if n := r.broken(); silent > 0 && n < silent {
					turns, phase = 0, shut
				} else if silent > 0 {
					phase = open
				}
				p99[phase] = append(p99[phase], r.turn(b))
			}
			r.end(b)
		}
	}
	b.ReportMetric(median(p99[alone]), "alone-p99-ms")
	b.ReportMetric(median(p99[shut]), "closed-p99-ms")
	b.ReportMetric(median(p99[open]), "open-p99-ms")
	b.ReportMetric(max(median(p99[shut]), median(p99[open]))/median(p99[alone]), "ratio")
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// rig is a world whose receivers are reached over HTTP.
type rig struct {
	*world
	shop    directory
	healthy int
	since   sync.Map // by event: when it was handed over
	arrived chan time.Duration
	close   func()
}

func newRig(b *testing.B, healthy, silent int) *rig {
	r := &rig{world: newWorld(b), shop: directory{ID: testProject}, healthy: healthy, arrived: make(chan time.Duration, 1<<20)}
	r.path = filepath.Join(b.TempDir(), "lanes.db") // a disk, and no memory
	good := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if at, ok := r.since.Load(req.Header.Get(webhook.HeaderID)); ok {
			r.arrived <- time.Since(at.(time.Time))
		}
	}))
	hole, err := net.Listen("tcp", "127.0.0.1:0") // accepted by the system, and read by nobody
	if err != nil {
		b.Fatal(err)
	}
	for i := range healthy + silent {
		url := good.URL
		if i >= healthy {
			url = "http://" + hole.Addr().String()
		}
		r.shop.Endpoints = append(r.shop.Endpoints, projects.Endpoint{
			ID: fmt.Sprintf("we_%d", i), URL: url, Kinds: domain.Kinds(), Secret: projects.Secret{Generation: 1, KeyVersion: 1},
		})
	}
	c := r.config()
	sender := webhook.NewSender(webhook.Config{AllowPrivate: true})
	c.Endpoints, c.Sender = r.shop, sender
	if r.lanes, err = Open(b.Context(), c); err != nil {
		b.Fatal(err)
	}
	r.run()
	r.close = func() {
		sender.Close()
		good.Close()
		hole.Close()
	}
	return r
}

// broken is how many circuit breakers were opened.
func (r *rig) broken() (n int) {
	for _, t := range r.lanes.all() {
		n += one(t.counted().Failures >= failuresToOpen)
	}
	return n
}

// turn pays 200 payments a second for five seconds, each to be delivered to one of
// 200 receivers, as it is where each is another merchant's. As the fan-out does,
// it enqueues together what came while the lanes took what was before. It
// answers the 99th percentile of the milliseconds from the payment to its
// arrival at a healthy receiver.
func (r *rig) turn(b *testing.B) float64 {
	b.Helper()
	paid := make(chan Event, 1000)
	enqueued := make(chan error, 1)
	go func() { enqueued <- r.enqueue(b.Context(), paid) }()
	sent := 0
	due := time.Now()
	for range 1000 {
		due = due.Add(5 * time.Millisecond)
		i := rand.IntN(200)
		<-time.After(time.Until(due))
		id := r.paid()
		if i >= len(r.shop.Endpoints) {
			continue // whom this rig does not have
		}
		p := r.last(b)
		r.since.Store(p.Commit.String(), time.Now())
		sent += one(i < r.healthy)
		paid <- Event{
			Project: testProject, Endpoint: r.shop.Endpoints[i].ID, Payment: id, ID: p.Commit, Kind: domain.KindPaymentPaid, Sequence: p.Sequence, Position: p.Position,
		}
	}
	close(paid)
	if err := <-enqueued; err != nil {
		b.Fatal(err)
	}
	times := make([]time.Duration, sent)
	for i := range times {
		times[i] = <-r.arrived
	}
	slices.Sort(times)
	return times[len(times)*99/100].Seconds() * 1000
}

// enqueue hands over together what has come.
func (r *rig) enqueue(ctx context.Context, paid <-chan Event) error {
	for e := range paid {
		events := []Event{e}
		for len(paid) > 0 {
			events = append(events, <-paid)
		}
		if err := r.lanes.Enqueue(ctx, events[len(events)-1].Position, events); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) end(b *testing.B) {
	b.Helper()
	if err := r.world.end(); err != nil {
		b.Fatal(err)
	}
	r.close()
}
