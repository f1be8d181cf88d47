package bus

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// feed is what a consumer of EVENTS delivers. close ends the waiting for it.
type feed interface {
	next() (fed, error)
	close()
}

// fed is a message of EVENTS. Its header and data may be read until the next
// one is asked for.
type fed struct {
	place
	subject string
	header  interface{ Get(name string) string }
	data    []byte
}

// place is where a message stands: in EVENTS, among those the consumer has
// delivered, from 1, and before how many.
type place struct{ sequence, number, pending uint64 }

func (d *Reader) feed(consumer jetstream.Consumer) (feed, error) {
	if d.Conn.Embedded() {
		return newWireFeed(d.Conn, consumer.CachedInfo().Name)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(fetchAhead),
		jetstream.PullExpiry(30*time.Second), jetstream.PullHeartbeat(d.Times.Heartbeat))
	return clientFeed{messages}, err
}

// clientFeed is of an external server.
type clientFeed struct{ messages jetstream.MessagesContext }

func (f clientFeed) next() (fed, error) {
	msg, err := f.messages.Next()
	if err != nil {
		return fed{}, err
	}
	meta, err := msg.Metadata()
	if err != nil {
		return fed{}, err
	}
	at := place{sequence: meta.Sequence.Stream, number: meta.Sequence.Consumer, pending: meta.NumPending}
	return fed{place: at, subject: msg.Subject(), header: msg.Headers(), data: msg.Data()}, nil
}

func (f clientFeed) close() { f.messages.Stop() }

// wireFeed is of the embedded server. When a message is not asked for within
// the server's 10 s for a write, the server ends the connection: who takes
// longer over an event reads on with another consumer.
type wireFeed struct {
	wire        *wire
	pull, inbox string
	due         int // messages that were asked for
}

// serverShutdown comes a little before the connection's end. Who asked the
// server something at once would wait for an answer in vain.
const serverShutdown = "409 Server Shutdown"

func newWireFeed(c *Conn, consumer string) (*wireFeed, error) {
	f := &wireFeed{pull: "$JS.API.CONSUMER.MSG.NEXT." + EventsStream + "." + consumer, inbox: c.NATS().NewInbox()}
	var err error
	f.wire, err = c.server.wire(UserLedger, f.inbox)
	return f, err
}

func (f *wireFeed) next() (fed, error) {
	for f.due <= fetchAhead/2 {
		f.due += fetchAhead / 2
		request := fmt.Appendf(nil, `{"batch":%d}`, fetchAhead/2)
		if err := errors.Join(f.wire.publish(f.pull, f.inbox+".next", nil, request), f.wire.flush()); err != nil {
			return fed{}, err
		}
	}
	m, err := f.wire.next()
	for err == nil && m.header.status() == serverShutdown {
		m, err = f.wire.next()
	}
	if err != nil {
		return fed{}, err
	}
	if status := m.header.status(); status != "" {
		return fed{}, errors.New(status)
	}
	f.due--
	at, ok := placeOf(m.reply)
	if !ok {
		return fed{}, fmt.Errorf("%q does not say where the message stands", m.reply)
	}
	return fed{place: at, subject: string(m.subject), header: m.header, data: m.data}, nil
}

func (f *wireFeed) close() { f.wire.close() }

// placeOf reads the subject on which a message is acknowledged:
// $JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.NUMBER.TIME.PENDING, or with
// domain and account before the stream and something at the end.
func placeOf(ack []byte) (p place, ok bool) {
	const short = 9
	from := 5
	if n := bytes.Count(ack, []byte(".")) + 1; n < short {
		return p, false
	} else if n > short {
		from += 2
	}
	n := 0
	for token := range bytes.SplitSeq(ack, []byte(".")) {
		var err error
		switch n - from {
		case 0:
			p.sequence, err = strconv.ParseUint(string(token), 10, 64)
		case 1:
			p.number, err = strconv.ParseUint(string(token), 10, 64)
		case 3:
			p.pending, err = strconv.ParseUint(string(token), 10, 64)
			return p, err == nil
		}
		if err != nil {
			return p, false
		}
		n++
	}
	return p, false
}
