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

// servedNode is the directory of a node whose server answers every request with this text.
func servedNode(t *testing.T, answer string) Directory {
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
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })}
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
		{"leader follower stopped", "node c takes no part: its log differs"},
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
		if err := (ClusterStatus{servedNode(t, `{"data":[`+strings.Join(rows, ",")+`]}`)}).Run(&cli.App{Ctx: t.Context(), Stdout: out, Stderr: out}); err != nil {
			said = err.Error()
		}
		if said != c.want {
			t.Errorf("%s: %q, want %q\n%s", c.roles, said, c.want, out)
		}
	}
}
