package notifier

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

// BenchmarkRelay copies a backlog. "plain" publishes the same bytes to an
// equal JetStream stream with as many messages under way, without headers,
// order or checks: what JetStream takes at best on this machine.
func BenchmarkRelay(b *testing.B) {
	const backlog = 100_000
	book := bustest.NewBook(b)
	id := book.Create(b, time.Hour)
	body := book.Records(b)[0].Body
	for i := range backlog - 1 {
		event := book.IDs.Next()
		_, err := eventstore.AppendOne(context.Background(), book.Store, eventstore.Commit{
			ID:     event,
			Record: eventstore.Record{Stream: eventstore.PaymentStream(bustest.Project, domain.ID{1, byte(i >> 16), byte(i >> 8), byte(i)}), Body: body},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	_ = id
	var plain, relay time.Duration
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			c := bustest.ConnectAs(b, bustest.StartServer(b, embedded.Config{}), bus.UserRelay)
			if _, err := c.JetStream().CreateStream(context.Background(), bus.EventsConfig(book.LogID)); err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			under := make(chan jetstream.PubAckFuture, 256)
			done := make(chan error, 1)
			go func() {
				for range backlog {
					f := <-under
					select {
					case <-f.Ok():
					case err := <-f.Err():
						done <- err
						return
					}
				}
				done <- nil
			}()
			for range backlog {
				f, err := c.JetStream().PublishMsgAsync(&nats.Msg{Subject: "payledger.v1.events.p.payment.created", Data: body})
				if err != nil {
					b.Fatal(err)
				}
				under <- f
			}
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			plain = time.Since(began)
		}
		b.ReportMetric(backlog/plain.Seconds(), "events/s")
	})
	b.Run("relay", func(b *testing.B) {
		for b.Loop() {
			c := bustest.ConnectTo(b, bustest.StartServer(b, embedded.Config{}))
			began := time.Now()
			r := relayOf(c, book)
			stop := healthtest.Run(b, r.Run)
			for r.Position() < backlog {
				time.Sleep(time.Millisecond)
			}
			relay = time.Since(began)
			stop()
		}
		b.ReportMetric(backlog/relay.Seconds(), "events/s")
		b.ReportMetric(plain.Seconds()/relay.Seconds(), "of-plain")
	})
}
