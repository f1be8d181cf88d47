package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"code.dny.dev/ssrf"

	"payledger/notifier/connector/client"
)

func get(t *testing.T, c *http.Client, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err == nil {
		t.Cleanup(func() { resp.Body.Close() })
	}
	return resp, err
}

func TestProvidersAreCalledAtPublicAddressesOnly(t *testing.T) {
	t.Parallel()
	var called atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Store(true) }))
	defer s.Close()
	guarded := client.New(client.Config{})
	for _, url := range []string{s.URL, strings.Replace(s.URL, "127.0.0.1", "localhost", 1), "http://10.0.0.1:443", "https://169.254.169.254", "https://[::1]", "http://8.8.8.8:80"} {
		_, err := get(t, guarded, url)
		if !errors.Is(err, ssrf.ErrProhibitedIP) && !errors.Is(err, ssrf.ErrProhibitedPort) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if called.Load() {
		t.Fatal("this machine was called")
	}
	if _, err := get(t, client.New(client.Config{AllowPrivate: true}), s.URL); err != nil || !called.Load() {
		t.Errorf("an adapter on this machine was not called: %v", err)
	}
}

func TestRedirectsAreAnswers(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			t.Error("the redirect was followed")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	resp, err := get(t, client.New(client.Config{AllowPrivate: true}), s.URL)
	if err != nil || resp.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("%v, %v", resp, err)
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the proxy was called") }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://192.0.2.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := client.New(client.Config{AllowPrivate: true}).Do(req); err == nil {
		resp.Body.Close()
		t.Error("something answered")
	}
}

func TestHeadOfAnAnswerIsBounded(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 80<<10))
	}))
	defer s.Close()
	if _, err := get(t, client.New(client.Config{AllowPrivate: true}), s.URL); err == nil {
		t.Error("80 KiB of header were taken")
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	var open, most atomic.Int64
	release := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if n := open.Add(1); n > most.Load() {
				most.Store(n)
			}
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.Start()
	defer s.Close()
	c := client.New(client.Config{AllowPrivate: true})
	const calls = 100
	done := make(chan error, calls)
	for range calls {
		go func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			if err != nil {
				done <- err
				return
			}
			resp, err := c.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			done <- err
		}()
	}
	for open.Load() < 64 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	for range calls {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if most.Load() > 64 {
		t.Errorf("%d connections were open", most.Load())
	}
}
