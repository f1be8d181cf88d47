package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"payledger/httpapi/wire"
	"payledger/notifier/health/healthtest"
)

// TestMoveInWhileServing makes a directory that is served the first node of a cluster.
// Clients post all the time: nothing is refused but with 503 and Retry-After, no
// connection is, and a command that is repeated with its key happens once. Until the
// cluster begins, the directory is alone, also after a crash.
func TestMoveInWhileServing(t *testing.T) {
	t.Parallel()
	n := &nodes{servers: make([]*server, len(nodeNames)), flags: []string{"--shutdown-timeout", "2s"}}
	dir := t.TempDir()
	var addresses []string
	for _, name := range nodeNames {
		n.dirs = append(n.dirs, filepath.Join(dir, name))
		addresses = append(addresses, name+"="+healthtest.FreeAddress(t))
	}
	does(t, "init", "--data", n.dirs[0])
	n.start(t, 0)
	n.project(t)
	p := &poster{n: n, payments: make(map[string]string)}
	p.posts(t, 3)

	does(t, append([]string{"cluster", "init", "--data", n.dirs[0]}, addresses...)...)
	if out, code := payledger(t, "cluster", "status", "--data", n.dirs[0]); code != 3 || !strings.Contains(out, "cluster begin") {
		t.Errorf("status before the others have joined: exit code %d: %s", code, out)
	}
	joins(t, n.dirs[0], "b", n.dirs[1])
	p.posts(t, 3)
	n.servers[0].kill()
	n.start(t, 0) // alone
	p.posts(t, 3)
	joins(t, n.dirs[0], "c", n.dirs[2])
	p.posts(t, 3)

	writing := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { p.postsUntil(t, writing) })
	}
	var waiting sync.WaitGroup
	waiting.Go(func() { n.start(t, 1, 2) })
	eventually(t, "a node that waits says so", func() bool {
		out, code := payledger(t, "cluster", "status", "--data", n.dirs[1])
		return code == 1 && strings.Contains(out, string(wire.RoleWaiting))
	})
	_ = slowly(t, "unix", filepath.Join(n.dirs[0], "admin.sock"), "POST /admin/verify", "") // a command that does not end
	first := n.servers[0]
	late := slowly(t, "tcp", strings.TrimPrefix(first.BaseURL, "http://"), "POST /v1/payments", "Authorization: Bearer "+first.ProjectID+":"+first.APIKey+"\r\n")
	does(t, "cluster", "begin", "--data", n.dirs[0])
	switch a, err := late(`"amount":"15.00"}`); {
	case err != nil: // its time was over
		t.Logf("a request that was under way all the time: %v", err)
	case a.StatusCode == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "":
	default:
		t.Errorf("a request that was under way all the time: %s, want 503 and Retry-After", a.Status)
	}
	waiting.Wait()
	for _, s := range n.servers[1:] {
		s.ProjectID, s.APIKey = n.servers[0].ProjectID, n.servers[0].APIKey
	}
	done := p.count()
	eventually(t, "payments are made after that", func() bool { return p.count() > done+8 })
	close(writing)
	all.Wait()
	t.Logf("the longest wait for a 201 was %v", p.longest)
	for key, id := range p.payments {
		a, ok := n.persist(t, 2, "POST", "/v1/payments", `{"amount":"15.00"}`, "Idempotency-Key", key)
		if !ok || a.Status != 201 || a.text(t, "id") != id {
			t.Errorf("the same request again: %d %s, want payment %s", a.Status, a.Body, id)
		}
	}
	n.agree(t, len(p.payments))
	killed := n.sequencer(t, 1)
	n.servers[killed].kill()
	a, ok := n.persist(t, (killed+1)%3, "POST", "/v1/payments", `{"amount":"15.00"}`)
	if !ok || a.Status != 201 {
		t.Errorf("without the sequencer: %d %s", a.Status, a.Body)
	}
}

// slowly sends a request but for the end of its body, with which it can be ended.
func slowly(t *testing.T, network, address, what, headers string) (end func(string) (*http.Response, error)) {
	t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 18\r\n%s\r\n{", what, headers); err != nil {
		t.Fatal(err)
	}
	return func(rest string) (*http.Response, error) {
		if _, err := io.WriteString(c, rest); err != nil {
			return nil, err
		}
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return nil, err
		}
		return a, a.Body.Close()
	}
}

// poster posts to the first node alone, from which no client goes away.
type poster struct {
	n *nodes

	mu       sync.Mutex
	payments map[string]string // id by key
	begun    int
	longest  time.Duration // until the answer was 201
}

func (p *poster) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.payments)
}

func (p *poster) posts(t *testing.T, payments int) {
	t.Helper()
	for range payments {
		p.post(t)
	}
}

func (p *poster) postsUntil(t *testing.T, end <-chan struct{}) {
	for !t.Failed() {
		select {
		case <-end:
			return
		case <-time.After(20 * time.Millisecond): // each payment is read again in the end
			p.post(t)
		}
	}
}

// post makes a payment, which is tried until it is.
func (p *poster) post(t *testing.T) {
	p.mu.Lock()
	p.begun++
	key := fmt.Sprintf("00000000-0000-4000-8000-%012d", p.begun)
	p.mu.Unlock()
	for began := time.Now(); ; {
		a, err := p.n.server(0).send("POST", "/v1/payments", `{"amount":"15.00"}`, "Idempotency-Key", key)
		switch {
		case err != nil:
			t.Errorf("POST %s: %v", key, err)
			return
		case a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "" && time.Since(began) < patience:
			time.Sleep(20 * time.Millisecond)
			continue
		case a.Status != http.StatusCreated:
			t.Errorf("POST %s: %d %s", key, a.Status, a.Body)
			return
		}
		p.mu.Lock()
		p.payments[key], p.longest = a.text(t, "id"), max(p.longest, time.Since(began))
		p.mu.Unlock()
		return
	}
}
