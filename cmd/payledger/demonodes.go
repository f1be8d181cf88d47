package main

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/demonodes"
	"payledger/cmd/payledger/process"
	"payledger/cmd/payledger/service"
	"payledger/httpapi/account"
)

// checkNodes refuses flags that three nodes cannot share.
func (c demoCmd) checkNodes() error {
	switch {
	case c.Nodes == 1:
	case c.AdminListen != "":
		return cli.Errorf(cli.ExitUsage, "--admin-listen: three nodes cannot have one address; leave it out with --nodes 3")
	case c.NodeListen != "":
		return cli.Errorf(cli.ExitUsage, "--node-listen: three nodes cannot have one address; leave it out with --nodes 3")
	case c.NATSListen != "":
		return cli.Errorf(cli.ExitUsage, "--nats-listen: three nodes cannot have one address; leave it out with --nodes 3")
	case c.NATSURL != "":
		return cli.Errorf(cli.ExitUsage, "--nats-url: each node of the demo has its own NATS server; leave it out with --nodes 3")
	}
	return nil
}

// runNodes runs the demo on three nodes.
func (c demoCmd) runNodes(a *cli.App, d datadir.Dir, kept bool, flags *kong.Context) error {
	if err := demonodes.Make(a.Ctx, string(d)); err != nil {
		return err
	}
	conf := demonodes.Config{Command: serveCommand(flags), Dir: string(d), Listen: c.Listen, Stderr: a.Stderr}
	return demonodes.Run(a.Ctx, conf, func(all []demonodes.Node) error {
		key, hook, err := c.setUp(a, datadir.Dir(all[0].Data))
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(struct {
				BaseURL    string           `json:"base_url"`
				Nodes      []demonodes.Node `json:"nodes"`
				Data       string           `json:"data"`
				ProjectID  string           `json:"project_id"`
				APIKey     string           `json:"api_key"`
				AccountURL string           `json:"account_url"`
				demoHook
			}{all[0].BaseURL, all, string(d), key.ProjectID, key.APIKey, all[0].BaseURL + account.Path, hook})
		}
		_, err = io.WriteString(a.Stdout, nodesGreeting(all, key, kept, d, hook))
		return err
	})
}

// serveCommand is the command that runs a node: serve, with the flags that the demo got
// and, where it got none, the demo's own defaults.
func serveCommand(got *kong.Context) []string {
	args := []string{"serve", "--json", "--until-stdin-ends"}
	given := map[string]bool{"data": true, "listen": true, "nodes": true, "webhook": true, "webhook-url": true, "json": true}
	for _, f := range got.Selected().Flags {
		if given[f.Name] || !f.Set {
			continue
		}
		given[f.Name] = true
		args = append(args, fmt.Sprintf("--%s=%v", f.Name, reflect.Indirect(f.Target)))
	}
	for _, flag := range []string{
		"sandbox", "webhook-allow-private", "log-level=warn", "rate-writes=0", "rate-reads=0", "rate-auth-failures=0", "rate-customers=0",
	} {
		if name, _, _ := strings.Cut(flag, "="); !given[name] {
			args = append(args, "--"+flag)
		}
	}
	return args
}

// nodesGreeting is what the demo of three nodes prints for people.
func nodesGreeting(all []demonodes.Node, key demoKey, kept bool, d datadir.Dir, hook demoHook) string {
	fate := "removed at the end"
	if kept {
		fate = "kept"
	}
	var b strings.Builder
	b.WriteString("payledger demo is ready: three nodes, each a separate process. Ctrl-C ends all.\n\n")
	for _, n := range all {
		fmt.Fprintf(&b, "  Node %s        %s, process %d\n", n.Name, n.BaseURL, n.PID)
	}
	fmt.Fprintf(&b, `  Account       %s (sign in with the project and the key)
  Project       %s
  API key       %s
  Data          %s (%s), with a log of each node

For the commands of the README, paste this into another terminal:

`, all[0].BaseURL+account.Path, key.ProjectID, key.APIKey, d, fate)
	variables := [][2]string{{"BASE", all[0].BaseURL}, {"PROJECT_ID", key.ProjectID}, {"API_KEY", key.APIKey}, {"DATA", all[0].Data}}
	for _, n := range all {
		upper := strings.ToUpper(n.Name)
		variables = append(variables, [2]string{"BASE_" + upper, n.BaseURL}, [2]string{"PID_" + upper, fmt.Sprint(n.PID)})
	}
	if addr, ok := hook.onThisMachine(); ok {
		variables = append(variables, [2]string{"WEBHOOK_ADDR", addr}, [2]string{"WEBHOOK_SECRET", hook.Secret})
	}
	exports(&b, variables)
	fmt.Fprintf(&b, `
Kill a node, and see that nothing is lost:

  kill -9 $PID_A
  %[1]s cluster status --data %[2]s

Watch the log:  %[1]s events tail --follow --data %[2]s
`, process.Name(os.Args[0]), shellWord(all[1].Data))
	b.WriteString(hook.greeting(service.Addresses{BaseURL: all[0].BaseURL, Data: all[0].Data}))
	return b.String()
}
