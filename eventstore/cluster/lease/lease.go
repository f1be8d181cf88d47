// Package lease says which of some nodes is to do what one of them does at a time, by a
// JetStream stream, SEQUENCER, that has one message at most: the name of the node that
// holds the lease, or nothing if it is free.
//
// The holder replaces the message by the same once a second. A node that sees the same
// message for three seconds, by its own clock, replaces it by its own name. Each
// replacement expects the sequence that was seen, so one of several succeeds. Two nodes
// may believe to hold the lease for some seconds: what they do has to be safe all the same.
//
// A key-value bucket is the same inside, but takes further rights, and is read from any
// replica.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// StreamName is the name of the stream, Subject where it takes its messages.
const (
	StreamName = "SEQUENCER"
	Subject    = "payledger.sequencer"

	lookEvery  = 250 * time.Millisecond
	renewEvery = time.Second
	onceTime   = 2 * time.Second        // for an answer
	firstTime  = 300 * time.Millisecond // for the first one of a stream: one that was just made may have no leader, and then nobody answers

	// Time is how long a message stands until its node counts as gone.
	Time = 3 * time.Second
)

// Config is one node's part in a lease.
type Config struct {
	Node      string
	JetStream jetstream.JetStream
	Replicas  int               // of the stream, when it is made
	Metadata  map[string]string // likewise
	Now       func() time.Time

	May     func(age time.Duration) bool // reports whether the node may take the lease, whose message stands for age
	Tell    func(holder string)          // is called, often, with the holder of the lease; empty: none is known
	Changed func()                       // has the other nodes look
	Report  func(error)                  // is called with errors after which it is tried again
}

// Lease is one node's part. Safe for concurrent use.
type Lease struct {
	c    Config
	wake chan struct{}

	mu     sync.Mutex
	stream jetstream.Stream // nil: not found yet
	number uint64           // the sequence that was seen last
	holder string
	since  time.Time // when number was first seen; zero: none was
	freed  time.Time // when this node gave up the lease and named no successor
}

// New makes a node's part; Run takes it.
func New(c Config) *Lease { return &Lease{c: c, wake: make(chan struct{}, 1)} }

// Run takes part until ctx ends.
func (l *Lease) Run(ctx context.Context) {
	for ctx.Err() == nil {
		l.look(ctx)
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-time.After(lookEvery):
		}
	}
}

// Look has the node look at once.
func (l *Lease) Look() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// look learns who holds the lease, and renews or takes it.
func (l *Lease) look(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, onceTime)
	defer cancel()
	err := l.read(ctx)
	age := l.c.Now().Sub(l.since)
	switch {
	case err != nil:
		l.c.Report(fmt.Errorf("the stream %s: %w", StreamName, err))
		if age >= Time { // another one may have taken it
			l.c.Tell("")
		}
		return
	case l.holder == l.c.Node && age >= renewEvery, l.holder != l.c.Node && l.may(age):
		// If another node was faster, the next look tells.
		if err := l.write(ctx, l.c.Node); err != nil && !errors.As(err, new(*jetstream.APIError)) {
			l.c.Report(fmt.Errorf("the stream %s: %w", StreamName, err))
		}
	}
	l.c.Tell(l.holder)
}

func (l *Lease) may(age time.Duration) bool {
	return (l.holder == "" || age >= Time) && l.c.Now().Sub(l.freed) >= 2*Time && l.c.May(age)
}

// read reads the newest message.
func (l *Lease) read(ctx context.Context) (err error) {
	if l.stream == nil {
		if l.stream, err = l.open(ctx); err != nil {
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, firstTime)
		defer cancel()
	}
	m, err := l.stream.GetLastMsgForSubject(ctx, Subject)
	switch {
	case err == nil:
		l.saw(m.Sequence, string(m.Data))
	case errors.Is(err, jetstream.ErrMsgNotFound):
		info, err := l.stream.Info(ctx)
		if err != nil {
			return err
		}
		l.saw(info.State.LastSeq, "")
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound):
		l.stream, l.number, l.holder, l.since = nil, 0, "", time.Time{}
	}
	return err
}

// saw takes up a message, unless it is older than one that was seen not long ago: a
// server that was deposed may show such a one.
func (l *Lease) saw(number uint64, holder string) {
	now := l.c.Now()
	if number > l.number || (number < l.number && now.Sub(l.since) >= Time) || l.since.IsZero() {
		l.number, l.holder, l.since = number, holder, now
	}
}

func (l *Lease) open(ctx context.Context) (jetstream.Stream, error) {
	found, err := l.c.JetStream.Stream(ctx, StreamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return l.c.JetStream.CreateStream(ctx, jetstream.StreamConfig{
			Name: StreamName, Description: "The node of payledger that writes the event log.",
			Subjects: []string{Subject}, Storage: jetstream.FileStorage, Replicas: l.c.Replicas,
			MaxMsgs: 1, MaxBytes: -1, MaxMsgSize: -1, MaxMsgsPerSubject: -1, MaxConsumers: -1,
			Discard: jetstream.DiscardOld, Duplicates: 100 * time.Millisecond, Metadata: l.c.Metadata,
		})
	}
	return found, err
}

// write replaces the newest message.
func (l *Lease) write(ctx context.Context, holder string) error {
	ack, err := l.c.JetStream.Publish(ctx, Subject, []byte(holder), jetstream.WithExpectStream(StreamName),
		jetstream.WithExpectLastSequence(l.number), jetstream.WithRetryAttempts(0))
	if err != nil {
		return err
	}
	changed := l.holder != holder
	l.saw(ack.Sequence, holder)
	if changed {
		l.c.Changed()
	}
	return nil
}

// Give gives the lease to another node, if this one holds it, or with "" to the first that
// takes it, and calls Tell with the new holder. done is called at the end: calls of Tell
// before it are out of date.
func (l *Lease) Give(ctx context.Context, to string, done func()) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, onceTime)
	defer cancel()
	if l.holder == l.c.Node {
		err = l.write(ctx, to)
	}
	if to == "" {
		l.freed = l.c.Now()
	}
	l.c.Tell(l.holder)
	done()
	return err
}
