package adapter_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"payledger/notifier/bus"
	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/adapter/adaptertest"
	"payledger/notifier/connector/connectortest"
)

const route = "bank"

func connect(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	closed := make(chan struct{})
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		<-closed
	})
	return nc
}

// program is an adapter that is asked over NATS.
type program struct {
	*adaptertest.Provider
	t  *testing.T
	nc *nats.Conn
}

func (p program) Connector() connector.Connector {
	c, err := adapter.NATS().Open(connector.Env{NATS: p.nc}, route, []byte(`{"hand_over":true}`))
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// Sent, Forged, Signed and Foreign: a program sends signals and no notifications.
func (program) Sent() []connectortest.Notification { return nil }

func (program) Forged(string) connectortest.Notification { return connectortest.Notification{} }

func (program) Signed(body []byte) connectortest.Notification {
	return connectortest.Notification{Body: body}
}
func (program) Foreign() []connectortest.Notification { return nil }

// serve answers calls until the test ends: as HTTP requests to the adapter, whose
// answers go back over NATS.
func serve(t *testing.T) program {
	t.Helper()
	p := program{adaptertest.New(), t, connect(t)}
	ctx, cancel := context.WithCancel(context.Background()) // t.Context ends before Cleanup, and so before calls
	var calls sync.WaitGroup
	sub, err := p.nc.Subscribe(bus.CallSubject(route, "*"), func(m *nats.Msg) {
		calls.Go(func() { p.answer(ctx, m) })
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sub.Unsubscribe()
		cancel()
		calls.Wait()
	})
	return p
}

func (p program) answer(ctx context.Context, m *nats.Msg) {
	defer func() {
		if recover() != nil { // the fault is that nobody is there
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"503"}}})
		}
	}()
	call := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/"+call, bytes.NewReader(m.Data))
	var err error
	if r.Header, err = p.Keys.Sign("any", time.Now(), m.Data); err != nil {
		p.t.Error(err)
	}
	w := &limited{ResponseRecorder: httptest.NewRecorder()}
	p.ServeHTTP(w, r)
	_ = m.Respond(w.Body.Bytes())
}

// limited is an answer that fits into a message.
type limited struct{ *httptest.ResponseRecorder }

func (l *limited) Write(b []byte) (int, error) {
	if l.Body.Len() > connector.MaxAnswer {
		return 0, errors.New("too long")
	}
	return l.ResponseRecorder.Write(b)
}

func TestNATSConnector(t *testing.T) {
	t.Parallel()
	connectortest.Run(t, func(t *testing.T) connectortest.Provider { return serve(t) })
}

func TestNATSSettings(t *testing.T) {
	t.Parallel()
	for object, asked := range map[string]bool{`{}`: false, `{"hand_over":false}`: false, `{"hand_over":true}`: true} {
		c, err := adapter.NATS().Open(connector.Env{}, route, []byte(object))
		if err != nil || (c != nil) != asked {
			t.Errorf("%s: %v, %v", object, c, err)
		}
	}
	for _, object := range []string{`{"handover":true}`, `{"hand_over":1}`, `[]`} {
		if _, err := adapter.NATS().Open(connector.Env{}, route, []byte(object)); !errors.As(err, new(*connector.SettingError)) {
			t.Errorf("%s: %v", object, err)
		}
	}
}

// TestNobodyListens: the error comes at once and says nothing of the attempt.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	p := program{adaptertest.New(), t, connect(t)}
	begun := time.Now()
	_, err := p.Connector().Read(t.Context(), connector.Attempt{Reference: "ref"})
	if !errors.Is(err, nats.ErrNoResponders) || errors.Is(err, connector.ErrNotFound) || time.Since(begun) > time.Minute {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
	if _, err := p.Connector().Notices(t.Context(), nil, []byte(`{"reference":"ref"}`)); !errors.Is(err, connector.ErrForged) {
		t.Errorf("a notification over HTTP: %v", err)
	}
}
