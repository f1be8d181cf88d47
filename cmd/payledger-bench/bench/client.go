package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// client is one connection that carries one request at a time. It knows as
// little of HTTP/1.1 as the servers here need, because what it costs is taken
// from them: they share the machine.
type client struct {
	conn   net.Conn
	in     []byte // the answer under way
	random *rand.ChaCha8
}

// maxAnswer bounds an answer, its header included.
const maxAnswer = 1 << 20

// dial opens a connection that seed, unique to it, gives its randomness.
func dial(ctx context.Context, addr string, seed [32]byte) (*client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, in: make([]byte, 4<<10), random: rand.NewChaCha8(seed)}, nil
}

// answer is valid until the client's next request.
type answer struct {
	status int
	head   []byte // status line and header, with the last line's end
	body   []byte
}

// do sends a whole request and reads the answer.
func (c *client) do(request []byte) (answer, error) {
	if _, err := c.conn.Write(request); err != nil {
		return answer{}, err
	}
	n, head := 0, -1
	for head < 0 {
		m, err := c.read(n)
		if err != nil {
			return answer{}, err
		}
		from := max(n-3, 0)
		n += m
		if head = bytes.Index(c.in[from:n], []byte("\r\n\r\n")); head >= 0 {
			head += from + 2
		}
	}
	a := answer{head: c.in[:head]}
	if len(a.head) < len("HTTP/1.1 200") {
		return a, errNoHTTP
	}
	var err error
	if a.status, err = strconv.Atoi(string(a.head[9:12])); err != nil {
		return a, errNoHTTP
	}
	length, err := strconv.Atoi(string(a.header("Content-Length")))
	if err != nil || length < 0 {
		return a, fmt.Errorf("the answer has no Content-Length: %q", a.head)
	}
	end := head + 2 + length
	for n < end {
		m, err := c.read(n)
		if err != nil {
			return a, err
		}
		n += m
	}
	if n > end {
		return a, errors.New("the server sent more than one answer")
	}
	a.head, a.body = c.in[:head], c.in[head+2:end]
	return a, nil
}

var errNoHTTP = errors.New("the answer is not HTTP")

// read reads more of the answer behind its first n bytes.
func (c *client) read(n int) (int, error) {
	if n == len(c.in) {
		if n >= maxAnswer {
			return 0, errors.New("the answer is too long")
		}
		c.in = append(c.in, make([]byte, len(c.in))...)
	}
	m, err := c.conn.Read(c.in[n:])
	if m > 0 {
		return m, nil
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the server closed the connection")
	}
	return 0, err
}

// header is a header's value, as net/http writes its name.
func (a answer) header(name string) []byte {
	_, rest, ok := bytes.Cut(a.head, []byte("\r\n"+name+": "))
	if !ok {
		return nil
	}
	value, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return value
}

// id is the object's first member of that name.
func (a answer) id() (id, bool) {
	_, rest, ok := bytes.Cut(a.body, []byte(`"id":"`))
	if !ok || len(rest) <= len(id{}) || rest[len(id{})] != '"' {
		return id{}, false
	}
	return id(rest[:len(id{})]), true
}

// id is a payment's or a refund's.
type id [26]byte

// refused is an answer other than the one that the work demands.
type refused struct{ what string }

func (r *refused) Error() string { return r.what }

func refuse(what string, a answer) error {
	body := a.body
	if len(body) > 300 {
		body = body[:300]
	}
	return &refused{fmt.Sprintf("%s: %d %s", what, a.status, body)}
}

func (c *client) close() { c.conn.Close() }

// within bounds all that follows on the connection.
func (c *client) within(d time.Duration) error { return c.conn.SetDeadline(time.Now().Add(d)) }
