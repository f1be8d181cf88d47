package bench

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
)

// directory is a data directory with a project whose key is known.
type directory struct {
	path    string
	project string
	key     string
	filled  Filled // zero for an empty log
}

func (b *bench) newDirectory(ctx context.Context, name string) (directory, error) {
	d := directory{path: filepath.Join(b.dir, name)}
	if _, err := command(ctx, b.Program, "init", "--data", d.path); err != nil {
		return d, err
	}
	made, err := b.newProject(ctx, d.path, "Bench")
	d.project, d.key = made.Project, made.Key
	return d, err
}

// project is one that was just registered.
type project struct {
	Project string `json:"project_id"`
	Key     string `json:"api_key"`
}

func (b *bench) newProject(ctx context.Context, data, name string) (made project, err error) {
	out, err := command(ctx, b.Program, "project", "create", name, "--data", data, "--json")
	if err != nil {
		return made, err
	}
	if err := json.Unmarshal(out, &made); err != nil {
		return made, fmt.Errorf("payledger project create: %w", err)
	}
	return made, nil
}

// serve starts the service on a directory, with everything switched on.
func (b *bench) serve(ctx context.Context, d directory, syncDelay time.Duration, more ...string) (*target, error) {
	name := "payledger"
	if syncDelay > 0 {
		name += " with slow syncs"
	}
	args := []string{
		"serve", "--data", d.path, "--sandbox", "--json", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--rate-writes", "0", "--rate-reads", "0", "--rate-auth-failures", "0", "--sync-delay", syncDelay.String(),
	}
	t, err := launch(ctx, name, d.path+".log", nil, b.Program, append(args, more...)...)
	if err != nil {
		return nil, err
	}
	t.Project, t.Key = d.project, d.key
	b.running = append(b.running, t)
	return t, nil
}

// service makes a new directory and starts the service on it.
func (b *bench) service(ctx context.Context, name string, syncDelay time.Duration) (*target, error) {
	d, err := b.newDirectory(ctx, name)
	if err != nil {
		return nil, err
	}
	return b.serve(ctx, d, syncDelay)
}

// settled waits until nothing is left to do for what was acknowledged: until
// the last payment of each connection has a route, or a baseline's queue is
// empty.
func (t *target) settled(ctx context.Context) error {
	if t.baseline {
		return t.drained(ctx)
	}
	for _, m := range t.merchants {
		if err := m.settled(ctx); err != nil {
			return err
		}
	}
	newest := t.acks.newest()
	if len(newest) == 0 {
		return nil
	}
	clients, err := t.dialAll(ctx, 1)
	if err != nil {
		return err
	}
	c := clients[0]
	defer c.close()
	r := t.blankID("GET", paymentsPath+"/%s", "")
	for end := time.Now().Add(settleWait); len(newest) > 0; {
		if err := c.within(patience); err != nil {
			return err
		}
		a, err := c.do(r.with(newest[0][:]))
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", t.name, err)
		case a.status != 200:
			return refuse("reading a payment", a)
		case !bytes.Contains(a.body, []byte(`"status":"created"`)):
			newest = newest[1:]
			continue
		case time.Now().After(end):
			return fmt.Errorf("%s: payment %s is still without a route %v after the load", t.name, newest[0], settleWait)
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// drained waits until a baseline has nothing left to do.
func (t *target) drained(ctx context.Context) error {
	clients, err := t.dialAll(ctx, 1)
	if err != nil {
		return err
	}
	c := clients[0]
	defer c.close()
	r := t.request("GET", "/v1/backlog", "", "")
	for end := time.Now().Add(settleWait); ; {
		if err := c.within(patience); err != nil {
			return err
		}
		a, err := c.do(r)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", t.name, err)
		case a.status != 200:
			return refuse("asking for the backlog", a)
		case string(a.body) == "0":
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%s: a backlog of %s is left %v after the load", t.name, a.body, settleWait)
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// settleWait is how long a backlog may take.
const settleWait = 2 * time.Minute

// diskUse is the space that the files below a name take.
func diskUse(name string) (size int64, err error) {
	err = filepath.WalkDir(name, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		n, err := allocated(path)
		size += n
		return err
	})
	return size, err
}
