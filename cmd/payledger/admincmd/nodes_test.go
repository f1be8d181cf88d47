package admincmd

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
)

// servedNode is the directory of a node whose server answers each path with a text.
func servedNode(t *testing.T, answers map[string]string) Directory {
	t.Helper()
	d := datadir.Dir(t.TempDir())
	for _, name := range []string{d.Ledger(), d.Cluster()} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := d.ListenSocket()
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answers[r.URL.Path] == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, answers[r.URL.Path])
	})}
	go s.Serve(l) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { s.Close() })
	return Directory{string(d)}
}

// TestClusterStatusNeedsALeader: between two leaders each node follows, and still nothing is recorded.
func TestClusterStatusNeedsALeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ roles, want string }{
		{"leader follower follower", ""},
		{"follower follower follower", "no node is the leader"},
		{"leader follower stopped", "node c takes no part, it is stopped: its log differs"},
		{"leader follower waiting", "node c takes no part, it is waiting"},
	} {
		var rows []string
		for i, role := range strings.Fields(c.roles) {
			row := `{"node":"` + string(rune('a'+i)) + `","role":"` + role + `"`
			if role == "stopped" {
				row += `,"trouble":"its log differs"`
			}
			rows = append(rows, row+"}")
		}
		said, out := "", new(bytes.Buffer)
		if err := (ClusterStatus{servedNode(t, map[string]string{"/admin/cluster": `{"data":[` + strings.Join(rows, ",") + `]}`})}).Run(&cli.App{Ctx: t.Context(), Stdout: out, Stderr: out}); err != nil {
			said = err.Error()
		}
		if said != c.want {
			t.Errorf("%s: %q, want %q\n%s", c.roles, said, c.want, out)
		}
	}
}

// TestStatusOfANode: a node's own, with the work that its leader knows of.
func TestStatusOfANode(t *testing.T) {
	t.Parallel()
	answers := map[string]string{"/admin/cluster/status": `{"base_url":"http://b","ready":true,"trouble":["of both"],"disk_free_bytes":5}`}
	status := func() (string, error) {
		out := new(bytes.Buffer)
		err := Status{servedNode(t, answers)}.Run(&cli.App{Ctx: t.Context(), Stdout: out, Stderr: out, JSON: true})
		return out.String(), err
	}
	if out, err := status(); err == nil || !strings.Contains(out, `"base_url":"http://b","ready":false,"trouble":["of both","the server answered 503`) {
		t.Errorf("without a leader: %v, %s", err, out)
	}
	answers["/admin/status"] = `{"base_url":"http://a","ready":true,"trouble":["of both","waits"],"notifications_pending":7,"disk_free_bytes":9}`
	out, err := status()
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{`"http://b"`, `"trouble":["of both","waits"]`, `"notifications_pending":7`, `"disk_free_bytes":5`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
}
