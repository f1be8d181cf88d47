package bus

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// link carries the messages of EVENTS, those to JetStream and those from it: a
// wire to the embedded server, a clientLink to an external one. Any number of
// goroutines may publish and one may wait for messages.
type link interface {
	// publish sends a message, at the latest when flush is called. The header is
	// empty or a whole block; reply may be empty. Neither header nor data is kept.
	publish(subject, reply string, header, data []byte) error
	flush() error
	// next waits for a message on an inbox of the link, whose header and data are
	// valid until the next call. The error ends the link.
	next() (message, error)
	// close ends next.
	close()
}

// message is a message that came over a link.
type message struct {
	subject, reply string
	status         string // what the server says in place of a message; empty: it is one
	header         interface{ Get(name string) string }
	data           []byte
}

// link opens a link as a user, with an inbox for answers and what is below it.
func (c *Conn) link(user, inbox string) (link, error) {
	if c.Embedded() {
		return openWire(c.server, user, inbox)
	}
	l := &clientLink{
		nc: c.nc, messages: make(chan *nats.Msg, 2*fetchAhead), closed: make(chan struct{}),
		lost: c.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED),
	}
	var err error
	if l.sub, err = c.nc.ChanSubscribe(inbox+".>", l.messages); err != nil {
		return nil, fmt.Errorf("subscribing to an inbox: %w", err)
	}
	return l, nil
}

// clientLink is a link over the NATS client.
type clientLink struct {
	nc       *nats.Conn
	sub      *nats.Subscription
	messages chan *nats.Msg
	lost     chan nats.Status
	closed   chan struct{}
}

func (l *clientLink) publish(subject, reply string, header, data []byte) error {
	msg := &nats.Msg{Subject: subject, Reply: reply, Data: data}
	if len(header) > 0 {
		var err error
		if msg.Header, err = nats.DecodeHeadersMsg(header); err != nil {
			return err
		}
	}
	return l.nc.PublishMsg(msg)
}

// flush does nothing: the client sends by itself.
func (*clientLink) flush() error { return nil }

func (l *clientLink) next() (message, error) {
	select {
	case m := <-l.messages:
		return message{subject: m.Subject, reply: m.Reply, status: m.Header.Get("Status"), header: m.Header, data: m.Data}, nil
	case <-l.lost:
		return message{}, errors.New("the connection to NATS was lost")
	case <-l.closed:
		return message{}, errors.New("the link was closed")
	}
}

func (l *clientLink) close() {
	_ = l.sub.Unsubscribe()
	l.nc.RemoveStatusListener(l.lost)
	close(l.closed)
}

// pull is what a consumer of EVENTS delivers. If a message is not taken
// within the 10 s that the server allows for a write, the server ends the
// connection, and the reader goes on with another consumer.
type pull struct {
	link           link
	request, inbox string
	due            int // messages that were asked for
}

// place is where a message stands: in EVENTS, among those the consumer has
// delivered, from 1, and before how many.
type place struct{ sequence, number, pending uint64 }

// serverShutdown comes a little before the connection's end. A request made at
// once would wait for an answer in vain.
const serverShutdown = "409 Server Shutdown"

func newPull(c *Conn, consumer string) (*pull, error) {
	p := &pull{request: NextSubject(consumer), inbox: c.nc.NewInbox()}
	var err error
	p.link, err = c.link(UserLedger, p.inbox)
	return p, err
}

// next waits for the next message.
func (p *pull) next() (m message, at place, err error) {
	for p.due <= fetchAhead/2 {
		p.due += fetchAhead / 2
		body := fmt.Appendf(nil, `{"batch":%d}`, fetchAhead/2)
		if err := errors.Join(p.link.publish(p.request, p.inbox+".next", nil, body), p.link.flush()); err != nil {
			return m, at, err
		}
	}
	for m, err = p.link.next(); err == nil && m.status == serverShutdown; {
		m, err = p.link.next()
	}
	if err == nil && m.status != "" {
		err = errors.New(m.status)
	}
	if err != nil {
		return m, at, err
	}
	p.due--
	at, ok := placeOf(m.reply)
	if !ok {
		return m, at, fmt.Errorf("%q does not say where the message stands", m.reply)
	}
	return m, at, nil
}

// placeOf reads the subject on which a message is acknowledged:
// $JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.NUMBER.TIME.PENDING, or with
// domain and account before the stream and something at the end.
func placeOf(ack string) (p place, ok bool) {
	const short = 9
	from := 5
	if n := strings.Count(ack, ".") + 1; n < short {
		return p, false
	} else if n > short {
		from += 2
	}
	n := 0
	for token := range strings.SplitSeq(ack, ".") {
		var err error
		switch n - from {
		case 0:
			p.sequence, err = strconv.ParseUint(token, 10, 64)
		case 1:
			p.number, err = strconv.ParseUint(token, 10, 64)
		case 3:
			p.pending, err = strconv.ParseUint(token, 10, 64)
			return p, err == nil
		}
		if err != nil {
			return p, false
		}
		n++
	}
	return p, false
}
