package baseline

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const payments = 50

// TestHonest makes payments at each baseline: what keeps them has them when it
// answers, and whoever has not the key gets nothing.
func TestHonest(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		if name == Sink || name == Postgres {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			at := start(t, Options{Name: name, Dir: dir})
			var all sync.WaitGroup
			for range payments {
				all.Go(func() { made(t, at, dir, name) })
			}
			all.Wait()
			if body := at.send(t, http.StatusOK, "GET", "/v1/backlog", ""); name != CeilingNATS && body != "0" {
				t.Errorf("a backlog of %s", body)
			}
			for range 6000 { // a minute
				if at.send(t, http.StatusOK, "GET", "/v1/backlog", "") == "0" {
					break
				}
				<-time.After(10 * time.Millisecond)
			}
			if body := at.send(t, http.StatusOK, "GET", "/v1/backlog", ""); body != "0" {
				t.Errorf("the backlog of %s is not worked off", body)
			}
			at.send(t, http.StatusBadRequest, "POST", "/v1/payments", "")
			at.Key += "x"
			at.send(t, http.StatusUnauthorized, "POST", "/v1/payments", `{"amount":"1.00"}`)
			at.send(t, http.StatusUnauthorized, "GET", "/v1/payments/x", "")
		})
	}
}

// made makes a payment and looks for it where the baseline keeps it.
func made(t *testing.T, at Ready, dir, name string) {
	t.Helper()
	body := at.send(t, http.StatusCreated, "POST", "/v1/payments", `{"amount":"1500.00"}`)
	_, id, _ := strings.Cut(body, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	switch name {
	case Map, Bolt:
		if got := at.send(t, http.StatusOK, "GET", "/v1/payments/"+id, ""); !strings.Contains(got, id) {
			t.Errorf("payment %s is read as %s", id, got)
		}
	case Ceiling, CeilingNATS:
		events, err := os.ReadFile(filepath.Join(dir, "events"))
		if err != nil || !bytes.Contains(events, []byte(`"stream":"`+id+`"`)) {
			t.Errorf("payment %s is not in the file: %v", id, err)
		}
	}
}

func TestSink(t *testing.T) {
	t.Parallel()
	at := start(t, Options{Name: Sink, Dir: t.TempDir()})
	at.send(t, http.StatusBadRequest, "POST", "/1", "{}")
	at.send(t, http.StatusNoContent, "POST", "/1", "{}", "Webhook-Id", "a", "Webhook-Timestamp", "1", "Webhook-Signature", "v1,x")
	if got := at.send(t, http.StatusOK, "GET", "/count", ""); got != "1" {
		t.Errorf("%s notifications, want the signed one", got)
	}
}

// start runs a baseline until the test's end.
func start(t *testing.T, o Options) Ready {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan Ready, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, o, func(r Ready) error {
			ready <- r
			return nil
		})
	}()
	t.Cleanup(func() {
		// A server that ends waits five seconds for a connection that was never used.
		http.DefaultClient.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case r := <-ready:
		return r
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	return Ready{}
}

func (at Ready) send(t *testing.T, want int, method, path, body string, header ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, at.BaseURL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+at.Project+":"+at.Key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "5f0c5f0e-7d55-4b53-9c3e-6f6f3a1f8a10")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Errorf("%s %s: %d, want %d: %s %v", method, path, resp.StatusCode, want, b, err)
	}
	return string(b)
}
