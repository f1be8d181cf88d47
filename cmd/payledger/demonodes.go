package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
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
func (c demoCmd) runNodes(a *cli.App, d datadir.Dir, flags *kong.Context) error {
	demo := clusternode.Demo{Command: serveCommand(flags), Dir: string(d), Listen: c.Listen, Stderr: a.Stderr}
	return demo.Run(a.Ctx, func(all []clusternode.DemoNode) error {
		key, hook, err := c.setUp(a, datadir.Dir(all[0].Data))
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(struct {
				BaseURL    string                 `json:"base_url"`
				Nodes      []clusternode.DemoNode `json:"nodes"`
				Data       string                 `json:"data"`
				ProjectID  string                 `json:"project_id"`
				APIKey     string                 `json:"api_key"`
				AccountURL string                 `json:"account_url"`
				demoHook
			}{all[0].BaseURL, all, string(d), key.ProjectID, key.APIKey, all[0].BaseURL + account.Path, hook})
		}
		var rows [][2]string
		variables := [][2]string{{"BASE", all[0].BaseURL}, {"PROJECT_ID", key.ProjectID}, {"API_KEY", key.APIKey}, {"DATA", all[0].Data}}
		for _, n := range all {
			rows = append(rows, [2]string{"Node " + n.Name, fmt.Sprintf("%s, process %d", n.BaseURL, n.PID)})
			upper := strings.ToUpper(n.Name)
			variables = append(variables, [2]string{"BASE_" + upper, n.BaseURL}, [2]string{"PID_" + upper, fmt.Sprint(n.PID)})
		}
		rows = append(
			rows,
			[2]string{"Account", all[0].BaseURL + account.Path + " (sign in with the project and the key)"},
			[2]string{"Project", key.ProjectID},
			[2]string{"API key", key.APIKey},
			[2]string{"Data", string(d) + " (" + c.fate() + "), with a log of each node"},
		)
		return c.greet(a, all[1].Data, hook, ": three nodes, each a separate process. Ctrl-C ends all.", rows, variables, fmt.Sprintf(`Kill a node, and see that nothing is lost:

  kill -9 $PID_A
  %s cluster status --data %s

`, process.Name(os.Args[0]), shellWord(all[1].Data)))
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
