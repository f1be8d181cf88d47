package signals

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/health"
)

// signal is a message of SIGNALS inflight.
type signal struct {
	sequence uint64
	stored   time.Time // in SIGNALS
	subject  string    // at most maxSubject bytes of it
	ack      string    // the subject to acknowledge it on; empty: the consumer has not delivered it, and it is deleted instead
	behind   uint64    // how many JetStream had not delivered yet
	size     int
	content  *payload // nil: to be read again from SIGNALS

	route   string
	project string
	payment domain.ID
	astray  error // the subject is not that of a signal

	queue *signalQueue
	early health.Backoff // between tries while its payment has no route
	taken *holder        // of its reference, once that is known
}

// payload is the content of a message of SIGNALS.
type payload struct {
	body    []byte
	replyTo string // empty: nobody is answered
	mute    bool   // an answer was asked for where none may be sent

	gone bool // somebody purged the message

	says      domain.Signal
	malformed error // why says cannot be used
}

func newSignal(msg jetstream.Msg) (*signal, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("reading the JetStream stream %s: %w", bus.SignalsStream, err)
	}
	s := signalOn(msg.Subject(), meta.Sequence.Stream, meta.Timestamp, len(msg.Data())+headerSize(msg.Headers()))
	s.ack, s.behind = msg.Reply(), meta.NumPending
	s.content = s.contentOf(msg.Data(), msg.Headers())
	return s, nil
}

func headerSize(h nats.Header) (n int) {
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return n
}

// maxSubject bytes of a subject are kept; that of a signal is shorter.
const maxSubject = 512

// signalOn is a message on a subject, with so many bytes of header and body.
func signalOn(subject string, sequence uint64, stored time.Time, size int) *signal {
	s := &signal{sequence: sequence, stored: stored, subject: subject, size: len(subject) + size}
	if len(subject) > maxSubject {
		s.subject, s.astray = strings.Clone(subject[:maxSubject]), fmt.Errorf("the subject is longer than %d bytes", maxSubject)
	} else {
		s.route, s.project, s.payment, s.astray = bus.SignalAddress(subject)
	}
	if s.astray != nil {
		s.route, _, _ = strings.Cut(strings.TrimPrefix(s.subject, bus.SignalsPrefix), ".")
	}
	return s
}

// contentOf is the content of a message, not decoded yet.
func (s *signal) contentOf(data []byte, header nats.Header) *payload {
	c := &payload{body: bytes.Clone(data), replyTo: bus.ReplySubject(header)} // data keeps the header in memory
	c.mute = c.replyTo == "" && len(header[bus.ReplyHeader]) > 0
	return c
}

// decode sets says or malformed.
func (s *signal) decode() {
	c := s.content
	if s.astray != nil {
		c.malformed = s.astray
	} else if c.malformed == nil && c.says.Route == "" {
		c.says, c.malformed = bus.DecodeSignal(s.route, c.body)
	}
}

// read reads the dropped content of a signal from SIGNALS again.
func (s *signal) read(ctx context.Context, stream jetstream.Stream) error {
	m, err := stream.GetMsg(ctx, s.sequence)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		s.content = &payload{gone: true}
	case err != nil:
		return fmt.Errorf("reading the JetStream stream %s: %w", bus.SignalsStream, err)
	default:
		s.content = s.contentOf(m.Data, m.Header)
	}
	return nil
}

// Acknowledgements of delivered messages.
const (
	ackWord      = "+ACK"
	progressWord = "+WPI"
)
