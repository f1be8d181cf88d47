package notifier

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
)

// delivery is one event of a payment as JetStream delivers it.
type delivery struct {
	position eventstore.Position
	stream   eventstore.Stream
	typ      string // wire name
	data     []byte // the stored event
}

// dispatcher reads EVENTS with one consumer without durable state and hands
// each event of a payment on, in order and at least once. Where to begin comes
// from the log: at the oldest payment without a route, or at the log's end.
//
// A consumer that dies, skips, stalls or outlives its JetStream stream is
// replaced by one that starts behind the last event handed on. Positions are
// the log's, so this holds even when EVENTS was deleted and is being copied
// anew: the consumer waits until the copy gets there.
type dispatcher struct {
	conn     *Conn
	store    eventstore.Store
	logID    domain.ID
	unrouted UnroutedView
	hand     func(context.Context, delivery) error
	trouble  trouble
	remade   prometheus.Counter

	next    eventstore.Position // to be handed on; 0: not known yet
	handed  atomic.Uint64       // how many were, by the consumer of now
	waiting atomic.Bool         // hand is under way
	worked  atomic.Bool         // the consumer of now has
	times   dispatcherTimes
}

type dispatcherTimes struct {
	retry     backoff
	watch     time.Duration // between looks at the consumer
	heartbeat time.Duration
}

const (
	fetchAhead    = 1024             // events asked for ahead
	inactiveAfter = 30 * time.Second // a consumer left behind is removed by the server
)

func newDispatcher(c WorkersConfig, hand func(context.Context, delivery) error) *dispatcher {
	return &dispatcher{
		conn: c.Conn, store: c.Ledger.Store, logID: c.LogID, unrouted: c.Unrouted, hand: hand,
		trouble: trouble{log: c.Log, part: "dispatcher"},
		remade:  counter(c.Metrics, "payledger_dispatcher_restarts_total", "Consumers of the event stream that had to be replaced."),
		times: dispatcherTimes{
			retry: backoff{first: 50 * time.Millisecond, most: 2 * time.Second},
			watch: 3 * time.Second, heartbeat: time.Second,
		},
	}
}

func (d *dispatcher) run(ctx context.Context) error {
	for {
		err := d.consume(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case ends(err):
			return err
		}
		d.remade.Inc()
		if d.worked.Swap(false) {
			d.times.retry.reset()
		}
		// The relay is about to make the JetStream stream, now or anew.
		if !errors.Is(err, jetstream.ErrStreamNotFound) || d.times.retry.next >= d.times.retry.most {
			d.trouble.set(err)
		}
		if !d.times.retry.wait(ctx) {
			return ctx.Err()
		}
	}
}

// begin finds the first position that matters: where the last consumer got,
// but never beyond a payment without a route or the log's end. A consumer may
// have read a copy that was not of this log before the relay made it anew.
func (d *dispatcher) begin(ctx context.Context) error {
	// In this order: what is created between the two questions is behind last.
	last, err := d.store.Last(ctx)
	if err != nil {
		return err
	}
	oldest, ok, err := d.unrouted.OldestUnrouted(ctx)
	if err != nil {
		return fmt.Errorf("looking for payments without a route: %w", err)
	}
	if !ok || oldest > last {
		oldest = last + 1
	}
	if d.next == 0 || d.next > oldest {
		d.next = oldest
	}
	return nil
}

// consume hands events on until the consumer fails.
func (d *dispatcher) consume(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	stream, err := d.conn.js.Stream(ctx, EventsStream)
	if err != nil {
		return fmt.Errorf("looking for the JetStream stream %s: %w", EventsStream, err)
	}
	if reason := unlike(stream.CachedInfo().Config, eventsConfig(d.logID)); reason != "" {
		return &ForeignStreamError{Stream: EventsStream, Reason: reason}
	}
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Description: "The workers of payledger.", FilterSubject: paymentSubjects,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: uint64(d.next),
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: inactiveAfter,
	})
	if err != nil {
		return fmt.Errorf("making a consumer of %s: %w", EventsStream, err)
	}
	defer d.remove(ctx, stream, consumer)
	d.handed.Store(0)
	messages, err := consumer.Messages(jetstream.PullMaxMessages(fetchAhead),
		jetstream.PullExpiry(30*time.Second), jetstream.PullHeartbeat(d.times.heartbeat))
	if err != nil {
		return fmt.Errorf("reading the JetStream stream %s: %w", EventsStream, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.read(ctx, messages) })
	g.Go(func() error { return d.watch(ctx, stream, consumer) })
	err = g.Wait()
	messages.Stop()
	return err
}

// remove deletes a consumer that is not read any more, as far as the server
// can be reached; otherwise the server does it by itself a little later.
func (d *dispatcher) remove(ctx context.Context, stream jetstream.Stream, consumer jetstream.Consumer) {
	if d.conn.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = stream.DeleteConsumer(ctx, consumer.CachedInfo().Name)
}

func (d *dispatcher) read(ctx context.Context, messages jetstream.MessagesContext) error {
	var last eventstore.Position // of the log, as far as it was asked for
	for expected := uint64(1); ; expected++ {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("reading the JetStream stream %s: %w", EventsStream, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("reading the JetStream stream %s: %w", EventsStream, err)
		}
		if meta.Sequence.Consumer != expected {
			return errors.New("a message from JetStream was lost on the way")
		}
		position := eventstore.Position(meta.Sequence.Stream)
		if position > last {
			if last, err = d.store.Last(ctx); err != nil {
				return err
			}
		}
		if position > last {
			return fmt.Errorf("the JetStream stream %s is ahead of the log", EventsStream)
		}
		if s, ok := eventStream(msg.Subject()); ok && position >= d.next {
			d.waiting.Store(true)
			err := d.hand(ctx, delivery{
				position: position, stream: s, typ: msg.Headers().Get(headerType), data: msg.Data(),
			})
			d.waiting.Store(false)
			if err != nil {
				return err
			}
			d.next = position + 1
		}
		d.handed.Add(1)
		if meta.NumPending == 0 || expected == 1 {
			d.working()
		}
	}
}

func (d *dispatcher) working() {
	d.worked.Store(true)
	d.trouble.set(nil)
}

// watch fails when the consumer does not deliver what there is, or has got
// ahead of its JetStream stream.
func (d *dispatcher) watch(ctx context.Context, stream jetstream.Stream, consumer jetstream.Consumer) error {
	var handed uint64
	created := stream.CachedInfo().Created
	for pause(ctx, d.times.watch) {
		pending, err := consumer.Info(ctx)
		if err != nil {
			return fmt.Errorf("looking at the consumer of %s: %w", EventsStream, err)
		}
		now, err := stream.Info(ctx)
		if err != nil {
			return fmt.Errorf("looking at the JetStream stream %s: %w", EventsStream, err)
		}
		before := handed
		handed = d.handed.Load()
		switch {
		case !now.Created.Equal(created),
			pending.Delivered.Consumer > 0 && pending.Delivered.Stream > now.State.LastSeq:
			return fmt.Errorf("the JetStream stream %s was replaced", EventsStream)
		case pending.NumPending > 0 && handed == before && !d.waiting.Load():
			return fmt.Errorf("the consumer of %s does not deliver", EventsStream)
		}
		if pending.NumPending == 0 {
			d.working()
		}
	}
	return ctx.Err()
}
