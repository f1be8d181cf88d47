package filecopy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"payledger/notifier/health/healthtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const subject = "copy"

func connect(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
	})
	return nc
}

func serve(t *testing.T, nc *nats.Conn, content func() []byte) (s *Server, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := Serve(nc, subject, dir, func(w io.Writer) error {
		_, err := w.Write(content())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, dir
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestCopiesOfAllSizes(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	content := random(0)
	s, dir := serve(t, nc, func() []byte { return content })
	for _, n := range []int{0, 1, maxPiece - 1, maxPiece, maxPiece + 1, 3*maxPiece + 7} {
		content = random(n)
		var got bytes.Buffer
		if err := Fetch(t.Context(), nc, subject, into(&got)); err != nil || !bytes.Equal(got.Bytes(), content) {
			t.Errorf("%d bytes: %d came, %v", n, got.Len(), err)
		}
	}
	tooLarge := errors.New("too large")
	if err := Fetch(t.Context(), nc, subject, func(size int64) (io.Writer, error) {
		if size != int64(len(content)) {
			t.Errorf("the copy has %d bytes, %d are said", len(content), size)
		}
		return nil, tooLarge
	}); !errors.Is(err, tooLarge) {
		t.Errorf("a copy that is refused: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

// The copy is of one instant, however long it takes, and nobody else gets one
// meanwhile. One that nobody asks for any more makes room.
func TestOneCopyAtATime(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	content := random(2 * maxPiece)
	s, dir := serve(t, nc, func() []byte { return content })
	first, err := start(t.Context(), nc, subject)
	if err != nil {
		t.Fatal(err)
	}
	was := content
	content = random(10)
	if m, err := ask(t.Context(), nc, subject, nats.Header{headerAsker: {"another"}}, time.Minute); !errors.Is(err, errBusy) {
		t.Errorf("a second copy: %v, %v", m, err)
	}
	if _, err := piece(t.Context(), nc, subject, first.Header.Get(headerCopy), 2*maxPiece+1); err == nil {
		t.Error("a byte behind the end was given")
	}
	for range 2 {
		second, err := piece(t.Context(), nc, subject, first.Header.Get(headerCopy), maxPiece)
		if err != nil || !bytes.Equal(second.Data, was[maxPiece:]) {
			t.Errorf("the second piece is another one, %v", err)
		}
	}
	if err := Fetch(t.Context(), nc, subject, into(io.Discard)); err != nil {
		t.Errorf("after the end: %v", err)
	}
	if _, err := piece(t.Context(), nc, subject, first.Header.Get(headerCopy), 0); err == nil {
		t.Error("the first copy is still given")
	}
	s.mu.Lock()
	s.kept = 10 * time.Millisecond
	s.mu.Unlock()
	asker := nats.Header{headerAsker: {"one"}}
	again, err := ask(t.Context(), nc, subject, asker, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	healthtest.Eventually(t, "a copy that nobody asks for is removed", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.given == nil
	})
	if _, err := piece(t.Context(), nc, subject, again.Header.Get(headerCopy), 0); err == nil {
		t.Error("a copy that nobody asked for is still given")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

// A request whose answer was lost is answered with the copy that was made for it.
func TestAskedAgain(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	serve(t, nc, func() []byte { return random(2 * maxPiece) })
	asker := nats.Header{headerAsker: {"one"}}
	first, err := ask(t.Context(), nc, subject, asker, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ask(t.Context(), nc, subject, asker, time.Minute)
	if err != nil || again.Header.Get(headerCopy) != first.Header.Get(headerCopy) {
		t.Errorf("another copy, %v", err)
	}
}

func TestCopyThatFails(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	full := errors.New("the disk is full")
	s, err := Serve(nc, subject, t.TempDir(), func(io.Writer) error { return full })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := Fetch(t.Context(), nc, subject, into(io.Discard)); err == nil || !strings.Contains(err.Error(), full.Error()) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Fetch(ctx, nc, "nobody", into(io.Discard)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A node that lies about its copy is found out.
func TestDamagedCopy(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	for name, lie := range map[string]func(*nats.Msg){
		"another sum":   func(m *nats.Msg) { m.Header.Set(headerSum, strings.Repeat("0", 64)) },
		"no size":       func(m *nats.Msg) { m.Header.Del(headerSize) },
		"a larger size": func(m *nats.Msg) { m.Header.Set(headerSize, "11") },
		"a smaller one": func(m *nats.Msg) { m.Header.Set(headerSize, "9") },
	} {
		s, _ := serve(t, nc, func() []byte { return random(10) })
		sub, err := nc.Subscribe("liar", func(m *nats.Msg) {
			out := nats.NewMsg(m.Reply)
			if m.Header.Get(headerCopy) == "" {
				if err := s.piece(m, out); err != nil {
					t.Error(err)
				}
				lie(out)
			}
			_ = m.RespondMsg(out)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := Fetch(t.Context(), nc, "liar", into(io.Discard)); err == nil {
			t.Errorf("%s: taken", name)
		}
		_ = sub.Unsubscribe()
		_ = s.Close()
	}
}

// into takes a copy of any size.
func into(w io.Writer) func(int64) (io.Writer, error) {
	return func(int64) (io.Writer, error) { return w, nil }
}
