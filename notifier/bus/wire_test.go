package bus

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health/healthtest"
)

// TestWireAndClientUnderstandEachOther sends messages of all forms and sizes
// both ways.
func TestWireAndClientUnderstandEachOther(t *testing.T) {
	t.Parallel()
	s := started(t)
	c := connected(t, s)
	w, err := openWire(s, UserLedger, InboxLedger+".test")
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	heard, err := c.NATS().SubscribeSync("said")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	for _, header := range []nats.Header{nil, {"a": {"1"}, "b": {""}}} {
		for _, reply := range []string{"", "answer.here"} {
			for _, size := range []int{0, 1, wireBuffer - 1, 5 * wireBuffer} {
				data := bytes.Repeat([]byte{'x'}, size)
				if err := c.NATS().PublishMsg(&nats.Msg{Subject: InboxLedger + ".test.a", Reply: reply, Header: header, Data: data}); err != nil {
					t.Fatal(err)
				}
				m, err := w.next()
				if err != nil {
					t.Fatal(err)
				}
				if m.subject != InboxLedger+".test.a" || m.reply != reply || !bytes.Equal(m.data, data) ||
					m.header.Get("a") != header.Get("a") || m.header.Get("b") != "" || m.status != "" {
					t.Errorf("header %v, reply %q, %d bytes came as %s %s %q %d bytes", header, reply, size, m.subject, m.reply, m.header, len(m.data))
				}
				if err := errors.Join(w.publish("said", m.reply, m.header.(wireHeader), m.data), w.flush()); err != nil {
					t.Fatal(err)
				}
				back, err := heard.NextMsgWithContext(healthtest.Within(t))
				if err != nil {
					t.Fatal(err)
				}
				if back.Reply != reply || !bytes.Equal(back.Data, data) || back.Header.Get("a") != header.Get("a") || len(back.Header) != len(header) {
					t.Errorf("header %v, reply %q, %d bytes came back as %s %v %d bytes", header, reply, size, back.Reply, back.Header, len(back.Data))
				}
			}
		}
	}
	if err := errors.Join(w.publish("nobody.listens", InboxLedger+".test.b", nil, nil), w.flush()); err != nil {
		t.Fatal(err)
	}
	if m, err := w.next(); err != nil || m.status != "503" {
		t.Errorf("status %q, %v", m.status, err)
	}
	s.Shutdown()
	if _, err := w.next(); err == nil {
		t.Error("no error although the server is gone")
	}
}

func TestWireIsRefusedWithoutAUser(t *testing.T) {
	t.Parallel()
	w, err := openWire(started(t), "nobody", InboxLedger)
	if err == nil || !strings.Contains(err.Error(), "Authorization Violation") {
		t.Errorf("%v, %v", w, err)
	}
}

// saying is a wire on whose other end a server says something.
func saying(t *testing.T, words string) (*wire, *bufio.Reader) {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = errors.Join(client.Close(), server.Close()) })
	go func() {
		_, _ = io.WriteString(server, words) // the wire is closed while it says what nobody reads
	}()
	return newWire(client), bufio.NewReader(server)
}

func TestWireGivesSignsOfLife(t *testing.T) {
	t.Parallel()
	w, server := saying(t, "INFO {}\r\nPING\r\nPONG\r\n+OK\r\nMSG a 1 1\r\nx\r\n")
	pong := make(chan string, 1)
	go func() {
		line, _ := server.ReadString('\n')
		pong <- line
	}()
	if m, err := w.next(); err != nil || string(m.data) != "x" {
		t.Errorf("%q, %v", m.data, err)
	}
	if line := <-pong; line != "PONG\r\n" {
		t.Errorf("said %q", line)
	}
}

func TestWireReportsWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"-ERR 'Stale Connection'\r\n", "HELLO\r\n", "\r\n", "MSG\r\n", "MSG a 1\r\n", "MSG a 1 b c 2\r\nxx\r\n",
		"MSG a 1 -1\r\n", "MSG a 1 9x\r\n", "HMSG a 1 2\r\nxx\r\n", "HMSG a 1 3 2\r\nxx\r\n", "HMSG a 1 -1 2\r\nxx\r\n",
		"HMSG a 1 b c 1 2\r\nxx\r\n", "MSG " + strings.Repeat("a", wireBuffer) + " 1 0\r\n\r\n",
	} {
		w, _ := saying(t, words)
		if m, err := w.next(); err == nil {
			t.Errorf("%.40q is %v", words, m)
		}
	}
}

func TestPlaceOf(t *testing.T) {
	t.Parallel()
	want := place{sequence: 22, number: 11, pending: 3}
	for _, ack := range []string{
		"$JS.ACK.EVENTS.c.1.22.11.1700000000000000000.3",
		"$JS.ACK._.hash.EVENTS.c.1.22.11.1700000000000000000.3",
		"$JS.ACK.hub.hash.EVENTS.c.1.22.11.1700000000000000000.3.random",
	} {
		if got, ok := placeOf(ack); !ok || got != want {
			t.Errorf("%s: %+v, %t", ack, got, ok)
		}
	}
	for _, ack := range []string{"", "a.b", "$JS.ACK.EVENTS.c.1.22.11.17", "$JS.ACK.EVENTS.c.1.x.11.17.3", "$JS.ACK.EVENTS.c.1.22.-1.17.3", "$JS.ACK.EVENTS.c.1.22.11.17."} {
		if got, ok := placeOf(ack); ok {
			t.Errorf("%s: %+v", ack, got)
		}
	}
}

// BenchmarkLinks is what a message costs that is sent and comes, each flushed by
// itself, over a wire and over the NATS client.
func BenchmarkLinks(b *testing.B) {
	s := started(b)
	for name, server := range map[string]Embedded{"wire": s, "client": nil} {
		b.Run(name, func(b *testing.B) {
			c := connected(b, s)
			c.server = server // nil: as if it were external
			inbox := c.nc.NewInbox()
			from, err := c.link(UserLedger, c.nc.NewInbox())
			if err != nil {
				b.Fatal(err)
			}
			defer from.close()
			to, err := c.link(UserLedger, inbox)
			if err != nil {
				b.Fatal(err)
			}
			defer to.close()
			if err := c.nc.Flush(); err != nil {
				b.Fatal(err)
			}
			_, header, err := (&eventHeader{}).block(eventstore.Stored{Position: 7, Stream: eventstore.PaymentStream("prj_a", domain.ID{1}), Body: []byte(`{"type":"a"}`)})
			if err != nil {
				b.Fatal(err)
			}
			data := make([]byte, 600)
			for b.Loop() {
				if err := errors.Join(from.publish(inbox+".a", "", header, data), from.flush()); err != nil {
					b.Fatal(err)
				}
				if _, err := to.next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
