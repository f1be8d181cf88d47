package bus

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// pull is what a consumer of EVENTS delivers. When a message is not asked for
// within the server's 10 s for a write, the server ends the connection: who
// takes longer over an event reads on with another consumer.
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
	p := &pull{request: "$JS.API.CONSUMER.MSG.NEXT." + EventsStream + "." + consumer, inbox: c.nc.NewInbox()}
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
