package acquirer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"payledger/domain"
)

// ReplyHeader names the subject on which the enforcer answers a signal.
const ReplyHeader = "Payledger-Reply"

// MaxSignal is the largest signal message, header and body, in bytes.
const MaxSignal = 16 << 10

// subjectPrefix starts the subject of every signal; route, project and
// payment follow.
const subjectPrefix = "payledger.v1.signals."

// Subject is where signals about a payment are published by the acquirer of
// a route.
func Subject(route, project string, payment domain.ID) string {
	return subjectPrefix + route + "." + project + "." + payment.String()
}

// body is the JSON of a signal. The route is the subject's, so that nobody
// can speak for a route other than the one the server let through.
type body struct {
	Outcome   domain.Outcome  `json:"outcome"`
	Reference string          `json:"reference"`
	RefundID  *string         `json:"refund_id,omitempty"`
	Amount    domain.Amount   `json:"amount"`
	Currency  domain.Currency `json:"currency"`
	StartedAt *domain.Instant `json:"started_at,omitempty"`
}

// Encode writes the body of a signal.
func Encode(s domain.Signal) ([]byte, error) {
	b := body{Outcome: s.Outcome, Reference: s.Reference, Amount: s.Amount, Currency: s.Currency}
	if s.RefundID != nil {
		id := s.RefundID.String()
		b.RefundID = &id
	}
	if s.StartedAt != 0 {
		b.StartedAt = &s.StartedAt
	}
	return json.Marshal(b)
}

// Decode reads the body of a signal that came through a route, strictly:
// unknown and duplicate members, names in another case, invalid UTF-8 and ids
// in any but their canonical spelling are errors. The signal has passed
// Validate.
func Decode(route string, data []byte) (domain.Signal, error) {
	var b body
	if err := json.Unmarshal(data, &b, json.RejectUnknownMembers(true)); err != nil {
		return domain.Signal{}, fmt.Errorf("the signal is not the JSON object it should be: %w", err)
	}
	s := domain.Signal{Route: route, Outcome: b.Outcome, Reference: b.Reference, Amount: b.Amount, Currency: b.Currency}
	if b.RefundID != nil {
		id, ok := domain.ParseID(*b.RefundID)
		if !ok {
			return domain.Signal{}, errors.New("refund_id is not an id: want 26 characters of Crockford base 32 in upper case")
		}
		s.RefundID = &id
	}
	if b.StartedAt != nil {
		s.StartedAt = *b.StartedAt
	}
	if err := s.Validate(); err != nil {
		return domain.Signal{}, fmt.Errorf("the signal is incomplete: %w", err)
	}
	return s, nil
}

// The pause before a signal is sent again, at first and at most.
const (
	resendFirst = 500 * time.Millisecond
	resendMost  = 5 * time.Second
)

// Send publishes a signal and resends it, the same bytes each time, until the
// enforcer has answered or ctx ends. While NATS is away it waits. The error
// is the context's, or says why the signal cannot be sent at all.
func Send(ctx context.Context, nc *nats.Conn, project string, payment domain.ID, s domain.Signal) (domain.SignalReply, error) {
	data, err := Encode(s)
	if err != nil {
		return domain.SignalReply{}, fmt.Errorf("encoding a signal: %w", err)
	}
	// Not nc.NewInbox: the enforcer does not answer to a connection's own
	// inboxes, where a forged answer could do harm.
	inbox := nats.NewInbox()
	answers := make(chan *nats.Msg, 8)
	sub, err := nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return domain.SignalReply{}, fmt.Errorf("subscribing to the answer to a signal: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is closed

	msg := &nats.Msg{
		Subject: Subject(s.Route, project, payment),
		Header:  nats.Header{ReplyHeader: {inbox}},
		Data:    data,
	}
	for pause := resendFirst; ; pause = min(2*pause, resendMost) {
		if err := nc.PublishMsg(msg); err != nil && lasts(err) {
			return domain.SignalReply{}, fmt.Errorf("publishing a signal: %w", err)
		}
		again := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			again.Stop()
			return domain.SignalReply{}, fmt.Errorf("waiting for the answer to a signal: %w", ctx.Err())
		case m := <-answers:
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

// lasts reports whether publishing can never succeed. Other errors pass once
// NATS is back: a connection that was never made does not even know whether
// its server takes headers.
func lasts(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrBadSubject) || errors.Is(err, nats.ErrMaxPayload)
}
