package bus

import (
	"errors"
	"fmt"

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
	// next waits for a message on an inbox of the link. The error ends the link.
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
		return c.server.wire(user, inbox)
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
