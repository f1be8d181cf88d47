package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// target is a program that answers on loopback.
type target struct {
	name string
	addr string // host and port

	BaseURL string `json:"base_url"`
	Project string `json:"project_id"`
	Key     string `json:"api_key"`
	Admin   string `json:"admin_address"` // of metrics and profiles, if any

	cmd    *exec.Cmd
	pid    int
	exited chan struct{} // closed once the process has been waited for

	acks     book
	baseline bool

	merchants []*target // of a service: the same one with other keys, each with a book of its own
}

// stopWait is how long a target may take to end by itself.
const stopWait = 30 * time.Second

// launch starts a program and waits for the line of JSON by which it says that
// it is ready. What it writes to stderr goes to the file log.
func launch(ctx context.Context, name, log string, environ []string, program string, args ...string) (*target, error) {
	stderr, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close() //nolint:errcheck // the program has its own
	t := &target{name: name, exited: make(chan struct{})}
	t.cmd = exec.CommandContext(ctx, program, args...) //nolint:gosec // programs of ours
	t.cmd.Env, t.cmd.Stderr = append(environment(), environ...), stderr
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := t.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	t.pid = t.cmd.Process.Pid
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	go func() {
		defer close(t.exited)
		_, _ = io.Copy(io.Discard, lines)
		_ = t.cmd.Wait() // its state is asked for
	}()
	if err == nil {
		err = json.Unmarshal(line, t)
	}
	if err != nil {
		t.kill()
		return nil, fmt.Errorf("starting %s: %w\n%s", name, err, tailOf(log))
	}
	t.addr = strings.TrimPrefix(t.BaseURL, "http://")
	return t, nil
}

// environment is this process's without what would change a payledger's flags.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PAYLEDGER_") })
}

// tailOf is the end of a log.
func tailOf(log string) string {
	b, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-2000):]))
}

func (t *target) cpu() time.Duration { return processCPU(t.pid) }

// stop asks the program to end and waits for it.
func (t *target) stop() error {
	_ = t.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	timer := time.NewTimer(stopWait)
	defer timer.Stop()
	select {
	case <-t.exited:
	case <-timer.C:
		t.kill()
		return fmt.Errorf("%s did not end within %v", t.name, stopWait)
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

// running fails when the program has ended by itself.
func (t *target) running() error {
	select {
	case <-t.exited:
		return fmt.Errorf("%s ended by itself: %s", t.name, t.cmd.ProcessState)
	default:
		return nil
	}
}

// fetch reads from the admin listener.
func (t *target) fetch(ctx context.Context, path string, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.Admin+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
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

// metric reads one metric without labels.
func (t *target) metric(ctx context.Context, name string) (float64, error) {
	var b bytes.Buffer
	if err := t.fetch(ctx, "/metrics", &b); err != nil {
		return 0, err
	}
	for line := range strings.Lines(b.String()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			var v float64
			_, err := fmt.Sscan(value, &v)
			return v, err
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", t.name, name)
}

// profile writes a CPU profile of that length to DIR/NAME.pprof.
func (t *target) profile(ctx context.Context, dir, name string, d time.Duration) (err error) {
	f, err := os.Create(filepath.Join(dir, name+".pprof"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return t.fetch(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(d.Seconds()))), f)
}

// command runs a program of ours to its end and answers what it printed. Exit
// codes other than 0 are errors.
func command(ctx context.Context, program string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	_, err := timed(ctx, &out, program, args...)
	return out.Bytes(), err
}

// timed is command for output that goes elsewhere, nil for nowhere. It answers
// how long the program took, its start included.
func timed(ctx context.Context, out io.Writer, program string, args ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // programs of ours
	var stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(), out, &stderr
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		err = fmt.Errorf("payledger %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return took, err
}
