package webhook

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"payledger/domain"
	"payledger/notifier/connector/client"
)

// receivers stands for the network: each dial is given to serve at the other
// end of a pipe. It works on a clock of testing/synctest.
type receivers struct {
	*Sender

	open  atomic.Int64 // connections
	dials atomic.Int64
	read  atomic.Int64 // bytes that the sender took from the network
	wait  sync.WaitGroup
}

// newReceivers lets serve answer on every connection. A connection ends when
// serve returns or the sender hangs up.
func newReceivers(serve func(address string, conn net.Conn)) *receivers {
	return receiversOf(Config{AllowPrivate: true}, serve)
}

func receiversOf(c Config, serve func(address string, conn net.Conn)) *receivers {
	r := &receivers{Sender: NewSender(c)}
	r.connect = func(_ context.Context, _, address string) (net.Conn, error) {
		near, far := net.Pipe()
		r.open.Add(1)
		r.dials.Add(1)
		r.wait.Go(func() {
			defer r.open.Add(-1)
			defer far.Close()
			serve(address, far)
		})
		return &counted{near, &r.read}, nil
	}
	return r
}

type counted struct {
	net.Conn
	read *atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

func (r *receivers) end() {
	r.Close()
	r.wait.Wait()
	for left := 10_000; len(r.sockets) > 0; left-- {
		if left == 0 {
			panic(fmt.Sprintf("%d sockets count as open at the end", len(r.sockets)))
		}
		time.Sleep(time.Millisecond)
	}
}

// request reads one request; false when the sender has hung up.
func request(b *bufio.Reader) bool {
	req, err := http.ReadRequest(b)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// says answers the first request with this text and hangs up.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		if request(bufio.NewReader(c)) {
			io.WriteString(c, text) //nolint:errcheck // the sender may hang up
		}
	}
}

// hangs waits until the sender hangs up.
func hangs(c net.Conn) { io.Copy(io.Discard, c) } //nolint:errcheck // that is the end

// repeats writes the piece again and again, with a pause before each.
func repeats(c net.Conn, piece string, pause time.Duration) {
	var err error
	for err == nil {
		time.Sleep(pause)
		_, err = io.WriteString(c, piece)
	}
}

// after answers the first request by a beginning and what follows.
func after(begin string, then func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		says(begin)(c)
		then(c)
	}
}

func TestHostileReceivers(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	date := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC).Format(http.TimeFormat) // an hour into synctest's time
	for name, c := range map[string]struct {
		serve func(net.Conn)
		want  Outcome
		takes time.Duration // of Send; Duration of the outcome is part of want
		reads int64         // at most; 0: not looked at
	}{
		"2xx":                 {says(ok + "Content-Length: 3\r\n\r\nfin"), Outcome{Status: 200, Delivered: true, Answer: []byte("fin")}, 0, 0},
		"204":                 {says("HTTP/1.1 204 No Content\r\n\r\n"), Outcome{Status: 204, Delivered: true}, 0, 0},
		"299":                 {says("HTTP/1.1 299 Mine\r\nRetry-After: 5\r\n\r\n"), Outcome{Status: 299, Delivered: true}, 0, 0},
		"HTTP/1.0":            {says("HTTP/1.0 200 OK\r\n\r\nfin"), Outcome{Status: 200, Delivered: true, Answer: []byte("fin")}, 0, 0},
		"500":                 {says("HTTP/1.1 500 No\r\nContent-Length: 4\r\n\r\noops"), Outcome{Status: 500, Class: ClassStatus, Answer: []byte("oops")}, 0, 0},
		"404":                 {says("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"), Outcome{Status: 404, Class: ClassStatus}, 0, 0},
		"410":                 {says("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"), Outcome{Status: 410, Class: ClassStatus, Gone: true}, 0, 0},
		"101":                 {says("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), Outcome{Status: 101, Class: ClassStatus}, 0, 0},
		"a status too high":   {says("HTTP/1.1 999 ?\r\nContent-Length: 0\r\n\r\n"), Outcome{Status: 999, Class: ClassStatus}, 0, 0},
		"Retry-After":         {says("HTTP/1.1 503 No\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n"), Outcome{Status: 503, Class: ClassStatus, RetryAfter: 2 * time.Minute}, 0, 0},
		"Retry-After, date":   {says("HTTP/1.1 429 No\r\nRetry-After: " + date + "\r\nContent-Length: 0\r\n\r\n"), Outcome{Status: 429, Class: ClassStatus, RetryAfter: time.Hour}, 0, 0},
		"redirect":            {says("HTTP/1.1 307 No\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"), Outcome{Status: 307, Class: ClassRedirect}, 0, 0},
		"not modified":        {says("HTTP/1.1 304 No\r\n\r\n"), Outcome{Status: 304, Class: ClassRedirect}, 0, 0},
		"hangs up at once":    {func(net.Conn) {}, Outcome{Class: ClassReset}, 0, 0},
		"hangs up unanswered": {says(""), Outcome{Class: ClassReset}, 0, 0},
		"half a head":         {says(ok + "Date: x\r\n"), Outcome{Class: ClassReset}, 0, 0},
		"half a line":         {says(ok + "Content-Le"), Outcome{Class: ClassBadResponse}, 0, 0},
		"half a body":         {says(ok + "Content-Length: 10\r\n\r\nfin"), Outcome{Status: 200, Delivered: true, Answer: []byte("fin")}, 0, 0},
		"not HTTP":            {says("SSH-2.0-OpenSSH_9.2p1\r\n"), Outcome{Class: ClassBadResponse}, 0, 0},
		"HTTP/2":              {says("HTTP/2.0 200 OK\r\n\r\n"), Outcome{Status: 200, Delivered: true}, 0, 0},
		"two lengths":         {says(ok + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nfin"), Outcome{Class: ClassBadResponse}, 0, 0},
		"compressed":          {says(ok + "Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00"), Outcome{Status: 200, Delivered: true, Answer: []byte("\ufffd\ufffd\ufffd\ufffd")}, 0, 0},

		"silence":                   {hangs, Outcome{Class: ClassTimeout, Duration: domain.AnswerTime}, domain.AnswerTime, 0},
		"silence after the request": {after("", hangs), Outcome{Class: ClassTimeout, Duration: domain.AnswerTime}, domain.AnswerTime, 0},
		"101 and an open connection": {
			after("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", hangs),
			Outcome{Status: 101, Class: ClassStatus},
			0, 0,
		},
		"101 and another protocol": {
			after("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", func(c net.Conn) { repeats(c, "frame", 100*time.Millisecond) }),
			Outcome{Status: 101, Class: ClassStatus},
			0, 0,
		},
		"101 to no protocol":        {after("HTTP/1.1 101 Switching\r\n\r\n", hangs), Outcome{Status: 101, Class: ClassStatus}, 0, 0},
		"101 to h2c":                {after("HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n\x00\x00\x00\x04", hangs), Outcome{Status: 101, Class: ClassStatus}, 0, 0},
		"101 with a length":         {after("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 9\r\n\r\n", hangs), Outcome{Status: 101, Class: ClassStatus}, 0, 0},
		"200 with an upgrade":       {after(ok+"Connection: upgrade\r\nUpgrade: x\r\n\r\n", hangs), Outcome{Status: 200, Delivered: true}, bodyTime, 0},
		"early hints and silence":   {after("HTTP/1.1 103 Early Hints\r\n\r\n", hangs), Outcome{Class: ClassTimeout, Duration: domain.AnswerTime}, domain.AnswerTime, 0},
		"early hints and an answer": {says("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n"), Outcome{Status: 200, Delivered: true}, 0, 0},
		"processing that drips": {
			after("", func(c net.Conn) { repeats(c, "HTTP/1.1 102 Processing\r\n\r\n", time.Second) }),
			Outcome{Class: ClassTimeout, Duration: domain.AnswerTime},
			domain.AnswerTime, 0,
		},
		"a length and no body": {
			after(ok+"Content-Length: 100\r\n\r\n", hangs),
			Outcome{Status: 200, Delivered: true},
			bodyTime, 0,
		},
		"never reads": {
			func(net.Conn) { time.Sleep(time.Minute) },
			Outcome{Class: ClassTimeout, Duration: domain.AnswerTime},
			domain.AnswerTime, 0,
		},
		"a dripping head": {
			after(ok, func(c net.Conn) { repeats(c, "X-Drip: 1\r\n", time.Second) }),
			Outcome{Class: ClassTimeout, Duration: domain.AnswerTime},
			domain.AnswerTime, 0,
		},
		"a dripping body": {
			after(ok+"Content-Length: 100\r\n\r\n", func(c net.Conn) { repeats(c, "x", 300*time.Millisecond) }),
			Outcome{Status: 200, Delivered: true, Answer: []byte("xxxxxx")},
			bodyTime, 0,
		},
		"a late head": {
			func(c net.Conn) {
				if request(bufio.NewReader(c)) {
					time.Sleep(domain.AnswerTime - time.Second)
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n") //nolint:errcheck // see the outcome
					hangs(c)
				}
			},
			Outcome{Status: 200, Delivered: true, Duration: domain.AnswerTime - time.Second},
			domain.AnswerTime - time.Second + bodyTime, 0,
		},
		"early hints without end": {
			after("", func(c net.Conn) { repeats(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 0) }),
			Outcome{Class: ClassBadResponse},
			0, maxAnswer,
		},
		"a head without end": {
			after(ok, func(c net.Conn) { repeats(c, "X-Fill: "+strings.Repeat("x", 1000)+"\r\n", 0) }),
			Outcome{Class: ClassBadResponse},
			0, maxAnswer,
		},
		"a body without end": {
			after("HTTP/1.1 500 No\r\n\r\n", func(c net.Conn) { repeats(c, strings.Repeat("y", 4096), 0) }),
			Outcome{Status: 500, Class: ClassStatus, Answer: bytes.Repeat([]byte("y"), keptAnswer)},
			0, maxAnswer,
		},
		"chunks of one byte without end": {
			after(ok+"Transfer-Encoding: chunked\r\n\r\n", func(c net.Conn) { repeats(c, "1\r\nz\r\n", 0) }),
			Outcome{Status: 200, Delivered: true, Answer: bytes.Repeat([]byte("z"), keptAnswer)},
			0, maxAnswer,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newReceivers(func(_ string, conn net.Conn) { c.serve(conn) })
				defer r.end()
				began := time.Now()
				got := r.Send(t.Context(), attempt("http://shop.example/"))
				if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
					t.Errorf("got  %+v\nwant %+v", got, c.want)
				}
				if took := time.Since(began); took != c.takes {
					t.Errorf("took %v, want %v", took, c.takes)
				}
				if n := r.read.Load(); c.reads > 0 && n > c.reads {
					t.Errorf("read %d bytes, more than %d", n, c.reads)
				}
			})
		})
	}
}

// TestNoConnection is about what goes wrong before a request is sent.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		open  func(ctx context.Context) (net.Conn, error)
		class Class
		takes time.Duration
	}{
		"refused": {func(context.Context) (net.Conn, error) { return nil, errors.New("refused") }, ClassConnect, 0},
		"no such name": {func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}
		}, ClassDNS, 0},
		"a black hole": {func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }, ClassConnect, client.ConnectTime},
		"no handshake": {func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go hangs(far)
			return near, nil
		}, ClassTLS, client.ConnectTime},
		"no TLS": {func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				far.Read(make([]byte, 4096))                            //nolint:errcheck // the hello
				io.WriteString(far, "HTTP/1.1 400 Bad Request\r\n\r\n") //nolint:errcheck // the sender may hang up
			}()
			return near, nil
		}, ClassTLS, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := NewSender(Config{})
				defer s.Close()
				s.connect = func(ctx context.Context, _, _ string) (net.Conn, error) { return c.open(ctx) }
				o := s.Send(t.Context(), attempt("https://shop.example/"))
				if o.Class != c.class || o.Duration != c.takes || o.Delivered || o.Refused || o.Status != 0 {
					t.Errorf("%+v, want %s after %v", o, c.class, c.takes)
				}
			})
		})
	}
}

// TestNameServerIsSilent asks one that never answers.
func TestNameServerIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over, end := context.WithCancel(t.Context())
		s := NewSender(Config{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			if err := over.Err(); err != nil {
				return nil, err
			}
			near, far := net.Pipe()
			context.AfterFunc(over, func() { far.Close() })
			go hangs(far)
			return near, nil
		}}})
		defer s.Close()
		defer end()
		o := s.Send(t.Context(), attempt("https://shop.example/"))
		if o.Class != ClassDNS || o.Duration < client.ConnectTime || o.Duration > domain.AnswerTime {
			t.Errorf("%+v", o)
		}
	})
}

// TestCancelled ends attempts from outside: they say nothing of the receiver.
func TestCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceivers(func(_ string, c net.Conn) { hangs(c) })
		defer r.end()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if o := r.Send(ctx, attempt("http://shop.example/")); o.Class != ClassCancelled || o.Duration != time.Second {
			t.Errorf("%+v", o)
		}
		// A dial under way ends with the sender.
		s := NewSender(Config{})
		s.connect = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		done := make(chan Outcome)
		ctx, cancel = context.WithCancel(t.Context())
		go func() { done <- s.Send(ctx, attempt("https://shop.example/")) }()
		synctest.Wait()
		cancel()
		if o := <-done; o.Class != ClassCancelled {
			t.Errorf("%+v", o)
		}
		began := time.Now()
		s.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v", took)
		}
		if o := s.Send(t.Context(), attempt("https://shop.example/")); o.Class != ClassCancelled {
			t.Errorf("after Close: %+v", o)
		}
	})
}

// TestConnectionsAreKept counts connections: one receiver gets many
// notifications over one, and many receivers do not hold more than maxIdle
// open, nor those for long.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	serve := func(_ string, c net.Conn) {
		for b := bufio.NewReader(c); request(b); {
			io.WriteString(c, "HTTP/1.1 500 No\r\nContent-Length: 20000\r\n\r\n"+strings.Repeat("x", 20000)) //nolint:errcheck // the sender may hang up
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newReceivers(serve)
		defer r.end()
		for range 100 {
			if o := r.Send(t.Context(), attempt("http://shop.example/")); o.Status != 500 || len(o.Answer) != keptAnswer {
				t.Fatalf("%+v", o)
			}
			time.Sleep(idleTime / 2)
		}
		if n := r.dials.Load(); n != 1 {
			t.Errorf("%d connections for one receiver", n)
		}
		for i := range 2000 {
			if o := r.Send(t.Context(), attempt(fmt.Sprintf("http://shop-%d.example/", i))); o.Status != 500 {
				t.Fatalf("%+v", o)
			}
			synctest.Wait()
			if n := r.open.Load(); n > maxIdle+1 {
				t.Fatalf("%d connections are open after %d receivers", n, i)
			}
		}
		if n := r.open.Load(); n < maxIdle/2 {
			t.Errorf("only %d connections are kept: the limit was not tried", n)
		}
		time.Sleep(idleTime + time.Second)
		synctest.Wait()
		if n := r.open.Load(); n != 0 {
			t.Errorf("%d connections stay open", n)
		}
		r.dials.Store(0)
		for range 20 { // as many at once as a receiver may well be sent
			var wait sync.WaitGroup
			for range maxIdle / 2 {
				wait.Go(func() { r.Send(t.Context(), attempt("http://shop.example/")) })
			}
			wait.Wait()
			synctest.Wait()
		}
		if n := r.dials.Load(); n > maxIdle {
			t.Errorf("%d connections for %d notifications at a time", n, maxIdle/2)
		}
		r.Close()
		synctest.Wait()
		if n := r.open.Load(); n != 0 {
			t.Errorf("%d connections stay open after Close", n)
		}
	})
}

// TestHandshakeIsBounded reads from a new connection more than any handshake
// needs.
func TestHandshakeIsBounded(t *testing.T) {
	t.Parallel()
	r := newReceivers(func(_ string, c net.Conn) { repeats(c, strings.Repeat("x", 4096), 0) })
	defer r.end()
	conn, err := r.plain(t.Context(), "tcp", "shop.example:443")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := io.Copy(io.Discard, conn); n != maxHandshake || !errors.Is(err, errTooLong) {
		t.Errorf("read %d bytes: %v", n, err)
	}
}

// TestConnectionEnds uses connections as nobody should: without a context, as
// net/http hands them on after a 101. They end by themselves.
func TestConnectionEnds(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(net.Conn) error{
		"reading": func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err },
		"writing": func(c net.Conn) error { _, err := c.Write(make([]byte, 1)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newReceivers(func(_ string, c net.Conn) { time.Sleep(time.Hour); c.Close() })
				defer r.end()
				conn, err := r.plain(t.Context(), "tcp", "shop.example:80")
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				time.Sleep(time.Second)
				renew(conn, maxAnswer) // each attempt gets the whole time
				began := time.Now()
				if err := use(conn); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != useTime {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// TestNotSent is about requests that cannot be made.
func TestNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newReceivers(func(_ string, c net.Conn) { hangs(c) })
		defer r.end()
		a := attempt("http://shop.example/")
		a.Secrets = nil
		if o := r.Send(t.Context(), a); o.Class != ClassUnsigned || o.Refused {
			t.Errorf("%+v", o)
		}
		if o := r.Send(t.Context(), attempt("http://127.1/")); o.Class != ClassRefusedTarget || !o.Refused {
			t.Errorf("%+v", o)
		}
		if n := r.dials.Load(); n != 0 {
			t.Errorf("%d connections were made", n)
		}
	})
}

// TestConnectionsAreNoMoreThanRequests, and those kept for later: what is dialled
// for attempts that another connection served adds but a few to them.
func TestConnectionsAreNoMoreThanRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const requests = 8
		r := receiversOf(Config{AllowPrivate: true, Requests: requests}, func(_ string, c net.Conn) {
			for b := bufio.NewReader(c); request(b); {
				time.Sleep(10 * time.Millisecond)
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") //nolint:errcheck // the sender may hang up
			}
		})
		defer r.end()
		var dialling, most, connections atomic.Int64
		connect := r.connect
		r.connect = func(ctx context.Context, network, address string) (net.Conn, error) {
			defer dialling.Add(-1)
			if n := dialling.Add(1); n > most.Load() {
				most.Store(n)
			}
			if strings.HasPrefix(address, "shop.") && r.dials.Load() > 0 { // one connection, and then it takes none
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return connect(ctx, network, address)
		}
		send := func(url func(int) string) {
			var wait sync.WaitGroup
			for i := range requests {
				wait.Go(func() {
					if o := r.Send(t.Context(), attempt(url(i))); !o.Delivered {
						t.Errorf("%+v", o)
					}
				})
			}
			wait.Wait()
			connections.Store(max(connections.Load(), r.open.Load()))
		}
		r.Send(t.Context(), attempt("http://shop.example/"))
		for range 50 {
			send(func(int) string { return "http://shop.example/" })
		}
		if n := most.Load(); n <= requests || n > requests+requests/4 {
			t.Errorf("%d dials were under way for %d requests", n, requests)
		}
		for n := range 50 {
			send(func(i int) string { return fmt.Sprintf("http://host-%d-%d.example/", n, i) })
		}
		if n := connections.Load(); n <= requests || n > 2*requests+requests/4 {
			t.Errorf("%d connections were open for %d requests", n, requests)
		}
	})
}
