package bus

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// wire is a connection to the embedded server that speaks as much of NATS's
// client protocol as it takes to write EVENTS and to read it. Every event goes
// both ways over it. With the NATS client in its place a POST costs 6 to 13 %
// more CPU: the client's goroutines take a turn for each message that is sent
// and for each that comes, and it flushes once a message where this flushes
// once a group. BenchmarkLinks compares the two. Nothing is lost on a connection
// within the process, and it ends with the server.
//
// Any number of goroutines may publish and one may read, at the same time;
// somebody has to read, since the server asks for signs of life.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	buf  []byte // of the last message

	mu  sync.Mutex
	out *bufio.Writer
}

const wireBuffer = 32 << 10

// openWire connects a user of the ledger's account and listens on the inbox and
// what is below it.
func openWire(s Embedded, user, inbox string) (*wire, error) {
	conn, err := s.InProcessConn()
	if err != nil {
		return nil, err
	}
	w := newWire(conn)
	if err := w.open(user, s.Password(), inbox); err != nil {
		w.close()
		return nil, fmt.Errorf("connecting to the embedded NATS server: %w", err)
	}
	return w, nil
}

func newWire(conn net.Conn) *wire {
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, wireBuffer), out: bufio.NewWriterSize(conn, wireBuffer)}
}

func (w *wire) open(user, password, inbox string) error {
	connect, err := json.Marshal(map[string]any{
		"user": user, "pass": password, "name": "payledger", "lang": "go", "version": "", "protocol": 1,
		"verbose": false, "pedantic": false, "echo": false, "headers": true, "no_responders": true,
	})
	if err != nil {
		return err
	}
	if err := w.conn.SetDeadline(time.Now().Add(connectTimeout)); err != nil {
		return err
	}
	if line, err := w.in.ReadSlice('\n'); err != nil || !bytes.HasPrefix(line, []byte("INFO ")) {
		return errors.Join(err, errors.New("the server does not introduce itself"))
	}
	_, _ = fmt.Fprintf(w.out, "CONNECT %s\r\nSUB %s.> 1\r\nPING\r\n", connect, inbox)
	if err := w.flush(); err != nil {
		return err
	}
	for {
		switch line, err := w.in.ReadSlice('\n'); {
		case err != nil:
			return err
		case bytes.HasPrefix(line, []byte("-ERR ")):
			return refusal(line)
		case bytes.Equal(line, []byte("PONG\r\n")):
			return w.conn.SetDeadline(time.Time{})
		}
	}
}

func refusal(line []byte) error { return errors.New(string(bytes.TrimSpace(line[len("-ERR "):]))) }

// close ends the reading and publishing that is under way.
func (w *wire) close() { _ = w.conn.Close() }

// publish puts a message behind those that flush will send. The header is
// empty or a whole block; reply may be empty.
func (w *wire) publish(subject, reply string, header, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.out.AvailableBuffer()
	if len(header) > 0 {
		b = append(b, 'H')
	}
	b = append(append(append(b, "PUB "...), subject...), ' ')
	if reply != "" {
		b = append(append(b, reply...), ' ')
	}
	if len(header) > 0 {
		b = append(strconv.AppendInt(b, int64(len(header)), 10), ' ')
	}
	b = append(strconv.AppendInt(b, int64(len(header)+len(data)), 10), "\r\n"...)
	_, _ = w.out.Write(b) // an error stays, and is the last one's too
	_, _ = w.out.Write(header)
	_, _ = w.out.Write(data)
	_, err := w.out.WriteString("\r\n")
	return err
}

func (w *wire) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Flush()
}

// next waits for a message.
func (w *wire) next() (message, error) {
	for {
		line, err := w.in.ReadSlice('\n')
		if err != nil {
			return message{}, err
		}
		verb, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte{' '})
		switch string(verb) {
		case "MSG", "HMSG":
			return w.message(line, len(verb) == len("HMSG"))
		case "PING":
			w.mu.Lock()
			_, err = w.out.WriteString("PONG\r\n")
			err = errors.Join(err, w.out.Flush())
			w.mu.Unlock()
		case "-ERR":
			err = refusal(line)
		case "INFO", "PONG", "+OK":
		default:
			err = fmt.Errorf("the NATS server says %q", verb)
		}
		if err != nil {
			return message{}, err
		}
	}
}

// message reads what the line announces: a subject, the subscription's number,
// perhaps a subject for the reply, the header's size if there is one, and the
// size of all.
func (w *wire) message(line []byte, hasHeader bool) (m message, err error) {
	text := string(line) // the reader uses its place again
	malformed := func() error { return fmt.Errorf("the NATS server announces a message with %q", text) }
	var fields [6]string
	n := 0
	for field := range strings.SplitSeq(strings.TrimSpace(text), " ") {
		if n == len(fields) {
			return message{}, malformed()
		}
		fields[n] = field
		n++
	}
	sizes := 1
	if hasHeader {
		sizes = 2
	}
	if n != 3+sizes && n != 4+sizes {
		return message{}, malformed()
	}
	m.subject = fields[1]
	if n == 4+sizes {
		m.reply = fields[3]
	}
	header, headerErr := strconv.Atoi(fields[n-sizes])
	all, err := strconv.Atoi(fields[n-1])
	if !hasHeader {
		header = 0
	}
	if headerErr != nil || err != nil || header < 0 || header > all {
		return message{}, malformed()
	}
	w.buf = slices.Grow(w.buf[:0], all+len("\r\n"))[:all+len("\r\n")]
	if _, err := io.ReadFull(w.in, w.buf); err != nil {
		return message{}, err
	}
	h := wireHeader(w.buf[:header])
	m.header, m.status, m.data = h, h.status(), w.buf[header:all]
	return m, nil
}

// wireHeader is a block of headers as it was sent. Most of them nobody asks
// for.
type wireHeader []byte

const wireHeaderFirst = "NATS/1.0"

// Get answers the first value of that name, empty if there is none.
func (h wireHeader) Get(name string) string {
	rest := []byte(h)
	for {
		_, line, ok := bytes.Cut(rest, []byte("\r\n"))
		if !ok {
			return ""
		}
		if len(line) > len(name) && line[len(name)] == ':' && string(line[:len(name)]) == name {
			value, _, _ := bytes.Cut(line[len(name)+1:], []byte("\r\n"))
			return string(bytes.TrimSpace(value))
		}
		rest = line
	}
}

// status is what the server says instead of a message, empty if it is one.
func (h wireHeader) status() string {
	line, _, _ := bytes.Cut(h, []byte("\r\n"))
	status, _ := bytes.CutPrefix(line, []byte(wireHeaderFirst))
	return string(bytes.TrimSpace(status))
}
