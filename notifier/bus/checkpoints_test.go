package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/notifier/health/healthtest"
)

func newCheckpoints(t *testing.T, c *Conn, log domain.ID) *Checkpoints {
	t.Helper()
	return NewCheckpoints(c, log, healthtest.Log(t), nil)
}

// newestCheckpoint waits until it is the last message of the JetStream stream.
func newestCheckpoint(t *testing.T, c *Conn, want string) {
	t.Helper()
	healthtest.Eventually(t, "the checkpoint "+want+" is published", func() bool {
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

// TestCheckpointsSurviveAbsence: nothing waits while NATS is away, and the
// newest comes out when it is back; a deleted JetStream stream is made anew.
func TestCheckpointsSurviveAbsence(t *testing.T) {
	t.Parallel()
	s := started(t)
	c := connected(t, s)
	p := newCheckpoints(t, c, domain.ID{1})
	healthtest.Run(t, p.Run)
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
	if took := time.Since(start); took > 2*time.Minute {
		t.Errorf("publishing took %v while nothing could be published", took)
	}
	healthtest.Eventually(t, "the trouble is reported", func() bool { return errors.As(p.Err(), new(*ForeignStreamError)) })
	if err := c.JetStream().DeleteStream(t.Context(), "OTHER"); err != nil {
		t.Fatal(err)
	}
	newestCheckpoint(t, c, "third 999")
	healthtest.Eventually(t, "the trouble is over", func() bool { return p.Err() == nil })
}

// TestForeignCheckpointsAreLeftAlone on an external server.
func TestForeignCheckpointsAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := started(t)
	c := connected(t, s)
	p := newCheckpoints(t, c, domain.ID{1})
	healthtest.Run(t, p.Run)
	p.Publish([]byte("ours"))
	newestCheckpoint(t, c, "ours")

	outside := connected(t, s)
	outside.server = nil // as if the server were not this process's own
	other := newCheckpoints(t, outside, domain.ID{2})
	healthtest.Run(t, other.Run)
	other.Publish([]byte("theirs"))
	healthtest.Eventually(t, "the other log's publisher refuses", func() bool { return errors.As(other.Err(), new(*ForeignStreamError)) })
	newestCheckpoint(t, c, "ours")
}
