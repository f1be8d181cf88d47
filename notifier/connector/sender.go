package connector

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"payledger/domain"
	"payledger/notifier/bus"
)

// The pause before a signal is sent again, at first and at most.
const (
	resendFirst = 500 * time.Millisecond
	resendMost  = 5 * time.Second
)

// Sender sends signals over a connection. What they are answered with comes
// through one subscription, made with the first signal, which stays until the
// connection is closed. Safe for concurrent use.
type Sender struct {
	nc    *nats.Conn
	inbox string // with a number after it, one per signal

	mu        sync.Mutex
	listening bool
	last      uint64
	waiting   map[string]chan *nats.Msg // by inbox
}

// NewSender makes a sender.
func NewSender(nc *nats.Conn) *Sender {
	// Not nc.NewInbox: the enforcer does not answer to a connection's own
	// inboxes, where a forged answer could do harm.
	return &Sender{nc: nc, inbox: nats.NewInbox() + ".", waiting: make(map[string]chan *nats.Msg)}
}

// Send publishes a signal and resends it, the same bytes each time, until the
// enforcer has answered or ctx ends. While NATS is away it waits. The error
// is the context's, or says why the signal cannot be sent at all.
func (s *Sender) Send(ctx context.Context, project string, payment domain.ID, sig domain.Signal, said bus.Said) (domain.SignalReply, error) {
	data, err := bus.EncodeSignal(sig, said)
	if err != nil {
		return domain.SignalReply{}, fmt.Errorf("encoding a signal: %w", err)
	}
	inbox, answer, err := s.await()
	if err != nil {
		return domain.SignalReply{}, fmt.Errorf("subscribing to the answers to signals: %w", err)
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.waiting, inbox)
	}()

	msg := &nats.Msg{
		Subject: bus.SignalSubject(sig.Route, project, payment),
		Header:  nats.Header{bus.ReplyHeader: {inbox}},
		Data:    data,
	}
	for pause := resendFirst; ; pause = min(2*pause, resendMost) {
		err := s.nc.PublishMsg(msg)
		if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubject) || errors.Is(err, nats.ErrMaxPayload) {
			return domain.SignalReply{}, fmt.Errorf("publishing a signal: %w", err)
		}
		// Any other error passes once NATS is back: a connection that was never made does
		// not even know whether its server takes headers.
		again := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			again.Stop()
			return domain.SignalReply{}, fmt.Errorf("waiting for the answer to a signal: %w", ctx.Err())
		case m := <-answer:
			again.Stop()
			var r domain.SignalReply
			if err := json.Unmarshal(m.Data, &r); err != nil {
				return domain.SignalReply{}, fmt.Errorf("reading the answer to a signal: %w", err)
			}
			return r, nil
		case <-again.C:
		}
	}
}

// await returns an inbox, and where the first answer to it will be.
func (s *Sender) await() (inbox string, answer chan *nats.Msg, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listening {
		if _, err := s.nc.Subscribe(s.inbox+"*", s.answered); err != nil {
			return "", nil, err
		}
		s.listening = true
	}
	s.last++
	inbox, answer = s.inbox+strconv.FormatUint(s.last, 10), make(chan *nats.Msg, 1)
	s.waiting[inbox] = answer
	return inbox, answer, nil
}

// answered hands an answer on. Of a signal that was sent again more may come.
func (s *Sender) answered(m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer, ok := s.waiting[m.Subject]; ok {
		delete(s.waiting, m.Subject)
		answer <- m
	}
}
