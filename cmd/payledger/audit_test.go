package main

import (
	"io"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/datadir"
	"payledger/httpapi/wire"
)

// acted is an act as "payledger audit" prints it.
type acted struct {
	Type    string         `json:"type"`
	Project string         `json:"project"`
	Actor   string         `json:"actor"`
	Data    map[string]any `json:"data"`
}

func actsOf(t *testing.T, data string, args ...string) (all []acted) {
	t.Helper()
	out, code := payledger(t, append([]string{"audit", "--data", data, "--json"}, args...)...)
	if code != 0 {
		t.Fatal(out)
	}
	for line := range strings.Lines(out) {
		var l struct {
			Event acted `json:"event"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, l.Event)
	}
	return all
}

// Each act on projects, keys, endpoints, routes or the log is recorded with the name
// of the operator.
func TestWhoActed(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "routes.json")
	run := func(want int, args ...string) string {
		t.Helper()
		out, code := payledger(t, args...)
		if code != want {
			t.Fatalf("%v: exit code %d\n%s", args, code, out)
		}
		return out
	}
	rules := func(weight string) {
		if err := os.WriteFile(file, []byte(`[{"route":"cards","weight":`+weight+`}]`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rules("1")
	run(0, "init", "--data", data)
	var p struct {
		ProjectID string `json:"project_id"`
		APIKey    string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(run(0, "project", "create", "Tea", "--data", data, "--json", "--as", "Мария П.")), &p); err != nil {
		t.Fatal(err)
	}
	serve := func() *server {
		s := start(t, "serve", "--data", data, "--routes", file, "--webhook-allow-private")
		s.ProjectID, s.APIKey = p.ProjectID, p.APIKey
		return s
	}
	s := serve()
	run(2, "project", "change", p.ProjectID, "--name", "Teas", "--data", data, "--as", "a\nb") // it is in no header
	run(0, "project", "change", p.ProjectID, "--name", "Teas", "--data", data)
	s.do(t, 201, "POST", "/v1/webhook-endpoints", `{"url":"http://127.0.0.1:1/"}`)
	s.do(t, 201, "POST", "/v1/payments", `{"amount":"1.00"}`) // no act
	rules("2")
	run(0, "routes", "reload", "--data", data, "--as", "bob")
	run(0, "routes", "reload", "--data", data, "--as", "bob") // the same file
	run(0, "routes", "pause", "cards", "--data", data, "--as", "bob")
	run(0, "routes", "pause", "cards", "--data", data, "--as", "bob") // it is paused already
	run(0, "routes", "resume", "cards", "--data", data)
	run(0, "nats", "consumer", "create", "books", "--data", data, "--as", "bob")
	run(0, "nats", "consumer", "reset", "books", "--to", "0", "--data", data, "--as", "bob")
	backup := filepath.Join(dir, "monday.db")
	run(0, "backup", backup, "--data", data)
	s.stops(t)
	run(0, "restore", backup, "--data", data, "--as", "carol")
	run(0, "nats", "consumer", "remove", "books", "--data", data, "--as", "carol") // while no server runs
	if err := os.Remove(filepath.Join(data, "log.key")); err != nil {
		t.Fatal(err)
	}
	run(0, "log", "key", "--new", "--data", data, "--as", "carol")
	s = serve()
	want := []string{
		"project.registered operator:Мария П.", "key.issued operator:Мария П.", "routes.loaded ", "project.changed operator:" + me.Username,
		"webhook_endpoint.added key_", "routes.loaded operator:bob", "route.paused operator:bob",
		"route.resumed operator:" + me.Username, "nats_consumer.created operator:bob", "nats_consumer.reset operator:bob",
		"nats_consumer.removed operator:carol", "log_key.renewed operator:carol", "log.restored operator:carol",
	}
	var got []acted
	eventually(t, "the restore is recorded", func() bool { got = actsOf(t, data); return len(got) >= len(want) })
	for i, a := range got {
		if i >= len(want) || !strings.HasPrefix(a.Type+" "+a.Actor, want[i]) {
			t.Errorf("act %d: %s %q, want %q", i, a.Type, a.Actor, want[min(i, len(want)-1)])
		}
	}
	if n := len(actsOf(t, data, "--project", p.ProjectID)); n != 4 {
		t.Errorf("the project has %d acts, want 4", n)
	}
	if _, err := os.Stat(filepath.Join(data, "restored.json")); err == nil {
		t.Error("the note of the restore is still there")
	}
	s.stops(t)
	s = serve()
	s.stops(t)
	if again := actsOf(t, data); len(again) != len(want) {
		t.Errorf("another start recorded something: %v", again[len(want):])
	}
	if out := strings.Join(strings.Fields(run(0, "audit", "--data", data)), " "); !strings.Contains(out, " operator:carol log.restored - {") {
		t.Error(out)
	}
	run(0, "verify", "--data", data)
	run(0, "replay", "--data", data, "--check")
}

// TestCommandsNameTheirUser: the server of another machine, to which a follower passes a command on,
// knows the user by no number.
func TestCommandsNameTheirUser(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	l, err := datadir.Dir(dir).ListenSocket()
	if err != nil {
		t.Fatal(err)
	}
	named := make(chan string, 1)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		named <- r.Header.Get(wire.OperatorHeader)
		_, _ = io.WriteString(w, `{"data":[]}`)
	})}
	go s.Serve(l) //nolint:errcheck // it ends with the test
	t.Cleanup(func() { s.Close() })
	if out, code := payledger(t, "project", "list", "--data", dir); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	if name := <-named; name != me.Username {
		t.Errorf("the command says that %q acts, want %q", name, me.Username)
	}
}
