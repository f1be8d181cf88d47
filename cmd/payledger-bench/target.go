package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// target is a program that answers on loopback: a payledger or a baseline.
type target struct {
	name     string
	addr     string // host and port
	admin    string // host and port of metrics and profiles; "": a baseline
	data     string // the data directory of a payledger
	projects []project

	cmd    *exec.Cmd
	exited chan struct{} // closed once the process has been waited for

	keys atomic.Int64 // idempotency keys given out

	mu     sync.Mutex
	acked  []acked // every payment it has acknowledged
	newest []acked // the last ones of connections, whose routes are waited for
}

// project is a merchant of a target.
type project struct {
	ID  string `json:"project_id"`
	Key string `json:"api_key"`
}

// created adds what a connection created.
func (t *target) created(all []acked) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(all) > 0 {
		t.acked, t.newest = append(t.acked, all...), append(t.newest, all[len(all)-1])
	}
}

// all is every payment the target has acknowledged.
func (t *target) all() []acked {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acked
}

// launch starts a program and waits for the line of JSON by which it says that
// it is ready. What it writes to stderr goes to a file.
func launch(ctx context.Context, name, stderr string, env []string, program string, args ...string) (*target, error) {
	out, err := os.OpenFile(stderr, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close() //nolint:errcheck // the program has its own
	t := &target{name: name, exited: make(chan struct{})}
	t.cmd = exec.CommandContext(ctx, program, args...) //nolint:gosec // the user names it
	t.cmd.Env, t.cmd.Stderr = append(environment(), env...), out
	stdout, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadBytes('\n')
	go func() {
		defer close(t.exited)
		_, _ = io.Copy(io.Discard, lines)
		_ = t.cmd.Wait() // its state is asked for
	}()
	ready := struct {
		project
		BaseURL string `json:"base_url"`
		Admin   string `json:"admin_address"`
	}{}
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		t.kill()
		log, _ := os.ReadFile(stderr)
		return nil, fmt.Errorf("starting %s: %w\n%s", name, err, bytes.TrimSpace(log[max(0, len(log)-2000):]))
	}
	t.addr, t.admin, t.projects = strings.TrimPrefix(ready.BaseURL, "http://"), ready.Admin, []project{ready.project}
	return t, nil
}

// environment is this process's without what would set flags.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PAYLEDGER_") })
}

// stop asks the program to end and waits for it.
func (t *target) stop() error {
	_ = t.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-t.exited:
	case <-timer.C:
		t.kill()
		return fmt.Errorf("%s did not end within %v", t.name, patience)
	}
	if code := t.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with %s", t.name, t.cmd.ProcessState)
	}
	return nil
}

// kill ends the program as a crash would.
func (t *target) kill() {
	_ = t.cmd.Process.Kill() // it may be gone already
	<-t.exited
}

// cpu is the CPU time that the program has used.
func (t *target) cpu() time.Duration { return processCPU(t.cmd.Process.Pid) }

// settleWait is how long what is left to do after a load may take.
const settleWait = 2 * time.Minute

// settle waits until nothing is left to do for what was acknowledged: until the
// last payment of each connection has its route, or the baseline's queue is
// empty.
func (t *target) settle(ctx context.Context) error {
	c, err := t.dial(ctx, t.projects[0], time.Now().Add(settleWait+patience))
	if err != nil {
		return err
	}
	defer c.close()
	t.mu.Lock()
	newest := t.newest
	t.newest = nil
	t.mu.Unlock()
	return until(ctx, t.name+" works off what it acknowledged", settleWait, func() (bool, error) {
		if t.admin == "" {
			_, a, err := c.ask(200, "GET", "/v1/backlog", 0, "")
			return string(a.body) == "0", err
		}
		for len(newest) > 0 {
			if routed, err := c.get(newest[0]); !routed || err != nil {
				return false, err
			}
			newest = newest[1:]
		}
		return true, nil
	})
}

// until asks again and again, a millisecond apart, until something holds.
func until(ctx context.Context, what string, wait time.Duration, holds func() (bool, error)) error {
	for end := time.Now().Add(wait); ; {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("gave up after %v: %s", wait, what)
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// fetch reads from the admin listener.
func (t *target) fetch(ctx context.Context, path string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.admin+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Timeout: longest}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s", t.name, path, resp.Status)
	}
	_, err = io.Copy(to, resp.Body)
	return err
}

// metric reads a metric without labels.
func (t *target) metric(ctx context.Context, name string) (v float64, err error) {
	var all bytes.Buffer
	if err := t.fetch(ctx, "/metrics", &all); err != nil {
		return 0, err
	}
	for line := range strings.Lines(all.String()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			_, err := fmt.Sscan(value, &v)
			return v, err
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", t.name, name)
}

// profile writes a CPU profile of that length.
func (t *target) profile(ctx context.Context, file string, d time.Duration) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return t.fetch(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(d.Seconds()))), f)
}

// memory is what an idle service takes, in MiB: what is alive after a
// collection, and what is resident and not mapped from files.
func (t *target) memory(ctx context.Context) (heap, resident float64, err error) {
	for range 2 { // what finalisers free goes with the second
		if err := t.fetch(ctx, "/debug/pprof/heap?gc=1", io.Discard); err != nil {
			return 0, 0, err
		}
	}
	heap, err = t.metric(ctx, "go_memstats_heap_alloc_bytes")
	return heap / (1 << 20), float64(anonymousMemory(t.cmd.Process.Pid)) / (1 << 20), err
}

// disk is the space that a service's files take, in KiB: JetStream's, and all
// others.
func (t *target) disk() (ledger, jetStream float64, err error) {
	err = filepath.WalkDir(t.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		n, err := allocated(d)
		if inside, _ := filepath.Rel(t.data, path); strings.HasPrefix(inside, "nats"+string(filepath.Separator)) {
			jetStream += float64(n) / 1024
		} else {
			ledger += float64(n) / 1024
		}
		return ignoreMissing(err)
	})
	return ledger, jetStream, err
}

// ignoreMissing is for files that a running service has just removed.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
