package notifier

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
)

func newCheckpoints(t *testing.T, c *Conn, log domain.ID) *Checkpoints {
	t.Helper()
	p := NewCheckpoints(c, log, testLog(t), nil)
	p.retry = backoff{first: 5 * time.Millisecond, most: 50 * time.Millisecond}
	p.foreign = 20 * time.Millisecond
	return p
}

// newestCheckpoint waits until it is the last message of the JetStream stream.
func newestCheckpoint(t *testing.T, c *Conn, want string) {
	t.Helper()
	eventually(t, "the checkpoint "+want+" is published", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		s, err := c.JetStream().Stream(ctx, CheckpointsStream)
		if err != nil {
			return false
		}
		m, err := s.GetLastMsgForSubject(ctx, CheckpointsSubject)
		return err == nil && string(m.Data) == want
	})
}

func TestCheckpointsReachSubscribers(t *testing.T) {
	t.Parallel()
	o := newOpen(t)
	p := newCheckpoints(t, o.ledger, o.logID)
	run(t, p.Run)
	live, err := o.subscriber.SubscribeSync(CheckpointsSubject)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.subscriber.Flush(); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		want := fmt.Sprintf("checkpoint %d", n)
		p.Publish([]byte(want))
		m, err := live.NextMsg(patience)
		if err != nil || string(m.Data) != want {
			t.Fatalf("live: %v, %v, want %s", m, err, want)
		}
		newestCheckpoint(t, o.ledger, want)
	}
	if v := o.subscriber.violations(t); len(v) > 0 {
		t.Errorf("refused: %v", v)
	}
	if err := o.subscriber.Publish(CheckpointsSubject, []byte("forged")); err != nil {
		t.Fatal(err)
	}
	expectRefusal(t, o.subscriber, "subscriber publishes a checkpoint", "Permissions Violation for Publish")
	if _, err := o.connector.SubscribeSync(CheckpointsSubject); err != nil {
		t.Fatal(err)
	}
	expectRefusal(t, o.connector, "connector subscribes to checkpoints", "Permissions Violation for Subscription")
	s, err := o.ledger.JetStream().Stream(t.Context(), CheckpointsStream)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	if c.MaxAge != maxCheckpointsAge || c.MaxMsgs != maxCheckpoints || c.Discard != jetstream.DiscardOld {
		t.Errorf("the JetStream stream keeps %v, %d messages, %v", c.MaxAge, c.MaxMsgs, c.Discard)
	}
}

// TestCheckpointsSurviveAbsence: nothing waits while NATS is away, and the
// newest comes out when it is back; a deleted JetStream stream is made anew.
func TestCheckpointsSurviveAbsence(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	s := startServer(t, ServerConfig{})
	c := connectTo(t, s)
	p := newCheckpoints(t, c, b.logID)
	run(t, p.Run)
	p.Publish([]byte("first"))
	newestCheckpoint(t, c, "first")
	if err := c.JetStream().DeleteStream(t.Context(), CheckpointsStream); err != nil {
		t.Fatal(err)
	}
	p.Publish([]byte("second"))
	newestCheckpoint(t, c, "second")

	// Another program's JetStream stream takes the subject.
	if err := c.JetStream().DeleteStream(t.Context(), CheckpointsStream); err != nil {
		t.Fatal(err)
	}
	if _, err := c.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{CheckpointsSubject}}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for n := range 1000 {
		p.Publish(fmt.Appendf(nil, "third %d", n))
	}
	if took := time.Since(start); took > patience {
		t.Errorf("publishing took %v while nothing could be published", took)
	}
	eventually(t, "the trouble is told", func() bool { return errors.As(p.Err(), new(*ForeignStreamError)) })
	if err := c.JetStream().DeleteStream(t.Context(), "OTHER"); err != nil {
		t.Fatal(err)
	}
	newestCheckpoint(t, c, "third 999")
	eventually(t, "the trouble is over", func() bool { return p.Err() == nil })
}

// TestForeignCheckpointsAreLeftAlone on an external server.
func TestForeignCheckpointsAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	s := startServer(t, ServerConfig{})
	c := connectTo(t, s)
	p := newCheckpoints(t, c, b.logID)
	run(t, p.Run)
	p.Publish([]byte("ours"))
	newestCheckpoint(t, c, "ours")

	outside := connectTo(t, s)
	outside.server = nil // as if the server were not this process's own
	other := newCheckpoints(t, outside, b.ids.Next())
	run(t, other.Run)
	other.Publish([]byte("theirs"))
	eventually(t, "the other log's publisher refuses", func() bool { return errors.As(other.Err(), new(*ForeignStreamError)) })
	newestCheckpoint(t, c, "ours")
}
