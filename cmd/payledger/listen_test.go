package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"payledger/notifier/health/healthtest"
)

// listener is a running "payledger listen".
type listener struct {
	url            string
	cmd            *exec.Cmd
	stdout, stderr *healthtest.Buffer
	exited         chan struct{}
}

// startListener runs "payledger listen ARGS" on a free port and waits until it
// listens. env is added to this process's environment.
func startListener(env []string, args ...string) (*listener, error) {
	l := &listener{
		cmd:    exec.Command("payledger", append([]string{"listen", "--addr", "127.0.0.1:0"}, args...)...),
		stdout: &healthtest.Buffer{}, stderr: &healthtest.Buffer{}, exited: make(chan struct{}),
	}
	l.cmd.Env = append(os.Environ(), env...)
	l.cmd.Stdout, l.cmd.Stderr = l.stdout, l.stderr
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(l.exited)
		l.cmd.Wait() //nolint:errcheck // read from ProcessState
	}()
	said := regexp.MustCompile(`listening on (http://\S+/)`)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if m := said.FindStringSubmatch(l.stderr.String()); m != nil {
			l.url = m[1]
			return l, nil
		}
		select {
		case <-l.exited:
			return nil, fmt.Errorf("payledger listen: %s\n%s", l.cmd.ProcessState, l.stderr)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil, fmt.Errorf("it does not listen\n%s", l.stderr)
}

// end sends the signal and returns the exit code.
func (l *listener) end(how os.Signal) int {
	if l.cmd == nil {
		return 0
	}
	l.cmd.Process.Signal(how) //nolint:errcheck // it may be gone already
	<-l.exited
	return l.cmd.ProcessState.ExitCode()
}

// printed reports whether it has printed matching lines, in this order.
func (l *listener) printed(patterns []*regexp.Regexp) bool {
	rest := []byte(l.stdout.String())
	for _, p := range patterns {
		at := p.FindIndex(rest)
		if at == nil {
			return false
		}
		_, rest, _ = bytes.Cut(rest[at[1]:], []byte("\n"))
	}
	return true
}

type listenerKey struct{}

func listening(ts *testscript.TestScript) *listener {
	return ts.Value(listenerKey{}).(*listener) //nolint:forcetypeassert // set in Setup
}

func scriptReceiver(ts *testscript.TestScript, _ bool, args []string) {
	if code := listening(ts).end(os.Interrupt); code != 0 {
		ts.Fatalf("the receiver before ended with exit code %d\n%s", code, listening(ts).stderr)
	}
	var env []string
	if secret := ts.Getenv("PAYLEDGER_WEBHOOK_SECRET"); secret != "" {
		env = append(env, "PAYLEDGER_WEBHOOK_SECRET="+secret)
	}
	l, err := startListener(env, args...)
	ts.Check(err)
	ts.Defer(func() { l.end(syscall.SIGKILL) })
	*listening(ts) = *l
	ts.Setenv("HOOK", l.url)
}

func scriptArrives(ts *testscript.TestScript, neg bool, args []string) {
	l := listening(ts)
	var patterns []*regexp.Regexp
	for _, a := range args {
		p, err := regexp.Compile("(?m)" + a)
		ts.Check(err)
		patterns = append(patterns, p)
	}
	if neg {
		if l.printed(patterns) {
			ts.Fatalf("it arrived\n%s", l.stdout)
		}
		return
	}
	for deadline := time.Now().Add(patience); !l.printed(patterns); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("%s did not arrive\n%s%s", strings.Join(args, ", then "), l.stdout, l.stderr)
		}
	}
}

// TestListenEnds: neither Ctrl-C nor SIGTERM is a failure.
func TestListenEnds(t *testing.T) {
	t.Parallel()
	for _, how := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		l, err := startListener(nil, "--secret", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
		if err != nil {
			t.Fatal(err)
		}
		if code := l.end(how); code != 0 {
			t.Errorf("%s: exit code %d\n%s", how, code, l.stderr)
		}
	}
}
