package signals

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
)

// signal is a message of SIGNALS that was delivered and is not finished. Of its body no more is in
// memory than PARKED would store.
type signal struct {
	sequence uint64
	stored   time.Time // in SIGNALS
	subject  string    // at most maxSubject bytes of it
	ack      string    // the subject of its acknowledgement to JetStream

	body    []byte // at most maxParkedBody bytes of it
	cut     int    // the body's size, where only the first bytes are stored; 0: all are
	replyTo string // empty: no answer is wanted
	mute    bool   // an answer was asked for where none may be sent

	route     string
	project   string
	payment   domain.ID
	says      domain.Signal
	said      bus.Said
	malformed error // why it is no signal

	taken *holder // of its reference, once that is known
	done  bool    // it leaves the batch that it is judged in
}

// maxSubject bytes of a subject are stored; that of a signal is shorter.
const maxSubject = 512

// newSignal reads a message of SIGNALS. It copies what it needs of data and header, which share
// memory.
func newSignal(subject string, sequence uint64, stored time.Time, data []byte, header nats.Header) *signal {
	s := &signal{sequence: sequence, stored: stored, subject: subject, replyTo: bus.ReplySubject(header)}
	s.mute = s.replyTo == "" && len(header[bus.ReplyHeader]) > 0
	if len(s.subject) > maxSubject {
		s.subject, s.malformed = strings.Clone(s.subject[:maxSubject]), fmt.Errorf("the subject is longer than %d bytes", maxSubject)
	} else {
		s.route, s.project, s.payment, s.malformed = bus.SignalAddress(s.subject)
	}
	if s.malformed != nil {
		s.route, _, _ = strings.Cut(strings.TrimPrefix(s.subject, bus.SignalsPrefix), ".")
	}
	if s.malformed == nil {
		s.says, s.said, s.malformed = bus.DecodeSignal(s.route, data)
	}
	if len(data) > maxParkedBody {
		short, err := bus.EncodeSignal(s.says, s.said)
		if s.malformed == nil && err == nil { // it says little in many bytes
			s.body = short
			return s
		}
		s.cut, data = len(data), data[:maxParkedBody]
	}
	s.body = bytes.Clone(data)
	return s
}

// stream is that of the signal's payment.
func (s *signal) stream() eventstore.Stream { return eventstore.PaymentStream(s.project, s.payment) }
