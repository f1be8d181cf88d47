package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// directory is a data directory with a project.
type directory struct {
	path    string
	project project
}

// newDirectory makes a data directory with one project.
func (b *bench) newDirectory(ctx context.Context, program string) (d directory, err error) {
	b.made++
	d.path = filepath.Join(b.dir, fmt.Sprint("data-", b.made))
	if _, err = timed(ctx, nil, program, "init", "--data", d.path); err != nil {
		return d, err
	}
	d.project, err = newProject(ctx, program, d.path)
	return d, err
}

func newProject(ctx context.Context, program, data string) (p project, err error) {
	var out bytes.Buffer
	if _, err = timed(ctx, &out, program, "project", "create", "Bench", "--data", data, "--json"); err == nil {
		err = json.Unmarshal(out.Bytes(), &p)
	}
	return p, err
}

// service makes a data directory and starts a payledger on it.
func (b *bench) service(ctx context.Context, program, name string, flags ...string) (*target, error) {
	d, err := b.newDirectory(ctx, program)
	if err != nil {
		return nil, err
	}
	return b.serve(ctx, program, name, d, flags...)
}

// serve starts a payledger on a data directory, with everything switched on but
// rate limits.
func (b *bench) serve(ctx context.Context, program, name string, d directory, flags ...string) (*target, error) {
	t, err := b.launchService(ctx, program, name, d, flags...)
	if err == nil {
		b.running = append(b.running, t)
	}
	return t, err
}

func (b *bench) launchService(ctx context.Context, program, name string, d directory, flags ...string) (*target, error) {
	args := append([]string{
		"serve", "--data", d.path, "--sandbox", "--json", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--rate-writes", "0", "--rate-reads", "0", "--rate-auth-failures", "0", "--webhook-allow-private",
	}, flags...)
	t, err := launch(ctx, name, d.path+".log", nil, program, args...)
	if err != nil {
		return nil, err
	}
	t.data, t.projects = d.path, []project{d.project}
	return t, nil
}

// end stops a target, or kills it as a crash would.
func (b *bench) end(t *target, how func(*target) error) error {
	b.running = slices.DeleteFunc(b.running, func(r *target) bool { return r == t })
	return how(t)
}

// fillUp creates payments and waits until they have their routes.
func (t *target) fillUp(ctx context.Context, n int) error {
	if _, err := t.drive(ctx, load{connections: 64}, times(n, creating(t))); err != nil {
		return err
	}
	return t.settle(ctx)
}

// some is how many payments a suite begins with that needs a few.
func (b *bench) some() int { return min(max(int(10_000*b.duration.Seconds()), 100), 20_000) }

// timed runs a payledger to its end and returns how long it took, its start included. Its output
// goes to out; nil discards it. Exit codes other than 0 are errors.
func timed(ctx context.Context, out io.Writer, program string, args ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // the user names it
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
