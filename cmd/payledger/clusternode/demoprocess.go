package clusternode

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

// DemoNode is a node of a Demo that runs.
type DemoNode struct {
	Name    string `json:"name"`
	BaseURL string `json:"base_url"`
	Data    string `json:"data"`
	PID     int    `json:"pid"`
}

const (
	// restartAfter is how long a node stays away, so that one can see the others without it.
	restartAfter = 10 * time.Second
	// endTime is longer than a node takes to end.
	endTime = 45 * time.Second
)

// start starts a node, which ends with ctx, and with this process: its standard input
// ends then. It reports on out when it is ready.
func (d Demo) start(ctx context.Context, n DemoNode, listen string) (cmd *exec.Cmd, out *bufio.Reader, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(ctx, self) //nolint:gosec // it is this program
	cmd.Args = append(append([]string{os.Args[0]}, d.Command...), "--data="+n.Data, "--listen="+listen)
	log, err := os.OpenFile(n.Data+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = log.Close() }() // the process has it open for itself
	cmd.Stderr = log
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Cancel, cmd.WaitDelay = life.Close, endTime
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting node %s: %w", n.Name, err)
	}
	return cmd, bufio.NewReader(pipe), nil
}

// keep has a node run until ctx ends. up hears of it when it is ready for the first
// time; where it ends before that, the error has its exit code.
func (d Demo) keep(ctx context.Context, n DemoNode, listen string, up chan<- DemoNode) error {
	if err := d.join(ctx, n); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was to end
		}
		return err
	}
	for began := false; ; began = true {
		cmd, out, err := d.start(ctx, n, listen)
		if err != nil {
			return err
		}
		n.PID = cmd.Process.Pid
		report, notReady := out.ReadBytes('\n')
		if notReady == nil {
			notReady = json.Unmarshal(report, &n)
		}
		switch {
		case notReady == nil && began:
			fmt.Fprintf(d.Stderr, "Node %s is back, as process %d.\n", n.Name, n.PID)
		case notReady == nil:
			up <- n
		}
		_, _ = io.Copy(io.Discard, out)
		ended := cmd.Wait()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was to end
		case notReady != nil && !began:
			return cli.Errorf(max(cmd.ProcessState.ExitCode(), cli.ExitFailed), "node %s did not start: %s", n.Name, lastLine(n.Data+".log"))
		}
		fmt.Fprintf(d.Stderr, "Node %s has ended (%v). The others continue; it is started again in %v.\n", n.Name, ended, restartAfter)
		if !health.Pause(ctx, restartAfter) {
			return nil
		}
	}
}

// lastLine is why a process ended, by its log.
func lastLine(name string) string {
	b, err := os.ReadFile(name) //nolint:gosec // the log of a node that this process runs
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	return string(b[bytes.LastIndexByte(b, '\n')+1:])
}
