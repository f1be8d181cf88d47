package service

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"payledger/cmd/payledger/cli"
	httpadmin "payledger/httpapi/admin"
)

// An answer of a running server that ends before its last line is no result, wherever it broke off.
func TestAnswerThatBrokeOff(t *testing.T) {
	t.Parallel()
	const progress, done = `{"progress":{"step":"x","done":1,"total":2}}` + "\n", `{"done":{"position":2}}` + "\n"
	for _, x := range []struct {
		answer string
		want   error
	}{{progress + done, nil}, {progress, io.ErrUnexpectedEOF}, {progress + done[:9], io.ErrUnexpectedEOF}, {"", io.ErrUnexpectedEOF}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, x.answer) }))
		m := cli.ClientOf(func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
		}, "")
		if err := evidenceLines(t.Context(), m, "/admin/verify", nil, func(httpadmin.Line) error { return nil }); !errors.Is(err, x.want) {
			t.Errorf("%q: %v, want %v", x.answer, err, x.want)
		}
		server.Close()
	}
}
