package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// client is one connection with one request at a time for one project. It implements only the part
// of HTTP/1.1 that the servers here need, because its cost is taken from them: they share the
// machine.
type client struct {
	t       *target
	project project
	conn    net.Conn
	in      *bufio.Reader
	out     []byte
	body    []byte // of the last answer

	acked   []acked         // what it created
	latency []time.Duration // of the requests that count
	all     int             // requests answered as they should be
}

// id is a payment's or a refund's.
type id [26]byte

// acked is a payment that a server has acknowledged, with what is needed to ask
// for it again.
type acked struct {
	id      id
	key     int64
	project project
}

// dial opens a connection whose calls fail after the deadline.
func (t *target) dial(ctx context.Context, p project, deadline time.Time) (*client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", t.name, err)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	return &client{t: t, project: p, conn: conn, in: bufio.NewReaderSize(conn, 16<<10)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// answer is valid until the client's next request.
type answer struct {
	status   int
	replayed bool // the idempotency key was known
	body     []byte
}

const maxAnswer = 1 << 20

// do sends a request and reads the answer. A key above 0 is an idempotency key.
func (c *client) do(method, path string, key int64, body string) (a answer, err error) {
	b := fmt.Appendf(c.out[:0], "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s:%s", method, path, c.t.addr, c.project.ID, c.project.Key)
	if key > 0 { // a UUID
		b = fmt.Appendf(b, "\r\nIdempotency-Key: %08x-0000-4000-8000-%012x", uint32(key), key)
	}
	if body != "" {
		b = fmt.Appendf(b, "\r\nContent-Type: application/json\r\nContent-Length: %d", len(body))
	}
	b = append(append(b, "\r\n\r\n"...), body...)
	c.out = b
	if _, err := c.conn.Write(b); err != nil {
		return a, err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return a, fmt.Errorf("no answer: %w", err)
	}
	if len(line) < len("HTTP/1.1 200") {
		return a, errNoHTTP
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return a, errNoHTTP
	}
	length := -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return a, err
		}
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(": "))
		switch string(name) { // as net/http writes them
		case "":
			if length < 0 || length > maxAnswer {
				return a, fmt.Errorf("the answer's Content-Length is missing or above %d", maxAnswer)
			}
			c.body = append(c.body[:0], make([]byte, length)...)
			a.body = c.body
			_, err := io.ReadFull(c.in, a.body)
			return a, err
		case "Content-Length":
			if length, err = strconv.Atoi(string(value)); err != nil {
				return a, errNoHTTP
			}
		case "Idempotent-Replayed":
			a.replayed = string(value) == "true"
		}
	}
}

var errNoHTTP = errors.New("the answer is not HTTP")

// errDone is what an operation returns that has nothing left to do.
var errDone = errors.New("nothing is left to do")

// answerError: an answer is not the one that the request must have.
type answerError struct{ what string }

func (e *answerError) Error() string { return e.what }

// ask makes a request whose answer must have this status. It returns the id of
// the object answered with, if it has one.
func (c *client) ask(status int, method, path string, key int64, body string) (made id, a answer, err error) {
	a, err = c.do(method, path, key, body)
	if err != nil {
		return made, a, fmt.Errorf("%s: %s %s: %w", c.t.name, method, path, err)
	}
	if a.status != status {
		return made, a, &answerError{fmt.Sprintf("%s: %s %s: status %d, want %d: %.300s", c.t.name, method, path, a.status, status, a.body)}
	}
	if _, rest, ok := bytes.Cut(a.body, []byte(`"id":"`)); ok && len(rest) > len(made) {
		made = id(rest[:len(made)])
	}
	return made, a, nil
}

// paymentBody is the body of every payment.
const paymentBody = `{"amount":"1500.00","description":"order-1042","payload":{"cart":7,"customer":"c-8841"}}`

// create creates a payment under a new key.
func (c *client) create() (acked, error) { return c.createWith(paymentBody) }

func (c *client) createWith(body string) (acked, error) {
	p := acked{key: c.t.keys.Add(1), project: c.project}
	var err error
	if p.id, _, err = c.ask(201, "POST", "/v1/payments", p.key, body); err == nil {
		c.acked = append(c.acked, p)
	}
	return p, err
}

// get reads a payment. It reports whether the payment has its route.
func (c *client) get(p acked) (routed bool, err error) {
	c.project = p.project
	got, a, err := c.ask(200, "GET", "/v1/payments/"+string(p.id[:]), 0, "")
	if err == nil && got != p.id {
		err = &answerError{fmt.Sprintf("%s: asked for %s, got %.300s", c.t.name, p.id, a.body)}
	}
	return !bytes.Contains(a.body, []byte(`"status":"created"`)), err
}

// repeat sends the request that created a payment again.
func (c *client) repeat(p acked) error {
	c.project = p.project
	got, a, err := c.ask(201, "POST", "/v1/payments", p.key, paymentBody)
	if err == nil && (got != p.id || !a.replayed) {
		err = &answerError{fmt.Sprintf("%s: the key of %s was not recognised: %.300s", c.t.name, p.id, a.body)}
	}
	return err
}

// createPaid creates a payment that the sandbox pays: three events.
func (c *client) createPaid() (acked, error) {
	p, err := c.create()
	if err == nil {
		_, _, err = c.ask(200, "POST", "/v1/sandbox/payments/"+string(p.id[:]), 0, `{"outcome":"paid"}`)
	}
	return p, err
}

func (c *client) refund(p acked) (id, error) {
	made, _, err := c.ask(201, "POST", "/v1/refunds", 0, `{"payment_id":"`+string(p.id[:])+`"}`)
	return made, err
}

// life leads a payment through everything: created, paid, refund created, refund
// succeeded: four requests and four events.
func (c *client) life() error {
	p, err := c.createPaid()
	if err != nil {
		return err
	}
	refund, err := c.refund(p)
	if err == nil {
		_, _, err = c.ask(200, "POST", "/v1/sandbox/refunds/"+string(refund[:]), 0, `{"outcome":"succeeded"}`)
	}
	return err
}
