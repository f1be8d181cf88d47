package demonodes

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/cli"
	"payledger/notifier/health"
)

// Node is a node that runs.
type Node struct {
	Name    string `json:"name"`
	BaseURL string `json:"base_url"`
	Data    string `json:"data"`
	PID     int    `json:"pid"`

	listen string
}

const (
	// restartAfter is how long a node stays away, so that one can see the others without it.
	restartAfter = 10 * time.Second

	// endTime is longer than a node takes to end.
	endTime = 45 * time.Second
)

// process is the process of a node.
type process struct {
	*exec.Cmd

	node Node
	out  *bufio.Reader
}

// start starts a node, which ends with ctx, and with this process: its standard input
// ends then.
func start(ctx context.Context, c Config, n Node) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self) //nolint:gosec // it is this program
	cmd.Args = append(append([]string{os.Args[0]}, c.Command...), "--data="+n.Data, "--listen="+n.listen)
	log, err := os.OpenFile(n.Data+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has it open for itself
	cmd.Stderr = log
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel, cmd.WaitDelay = life.Close, endTime
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting node %s: %w", n.Name, err)
	}
	n.PID = cmd.Process.Pid
	return &process{cmd, n, bufio.NewReader(out)}, nil
}

// ready waits until the node is ready; then its own report is read.
func (p *process) ready() error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, &p.node)
}

// end waits for the end of the node.
func (p *process) end() error {
	_, _ = io.Copy(io.Discard, p.out)
	return p.Wait()
}

// keep has a node run until ctx ends. up hears of it when it is ready for the first
// time; where it ends before that, the error has its exit code.
func keep(ctx context.Context, c Config, n Node, up chan<- Node) error {
	if err := join(ctx, c, n); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was to end
		}
		return err
	}
	for began := false; ; began = true {
		p, err := start(ctx, c, n)
		if err != nil {
			return err
		}
		notReady := p.ready()
		switch {
		case notReady == nil && began:
			fmt.Fprintf(c.Stderr, "Node %s is back, as process %d.\n", n.Name, p.node.PID)
		case notReady == nil:
			up <- p.node
		}
		ended := p.end()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was to end
		case notReady != nil && !began:
			return cli.Errorf(max(p.ProcessState.ExitCode(), cli.ExitFailed), "node %s did not start: %s", n.Name, lastLine(n.Data+".log"))
		}
		fmt.Fprintf(c.Stderr, "Node %s has ended (%v). The others continue; it is started again in %v.\n", n.Name, ended, restartAfter)
		if !health.Pause(ctx, restartAfter) {
			return nil
		}
	}
}

// lastLine is why a process ended, by its log.
func lastLine(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	return string(b[bytes.LastIndexByte(b, '\n')+1:])
}
