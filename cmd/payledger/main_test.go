package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

// TestMain puts the program on PATH as "payledger".
func TestMain(m *testing.M) {
	healthtest.Overlap()
	if long() { // most of the clusters, whose nodes wait for each other
		if err := flag.Set("test.parallel", "12"); err != nil {
			panic(err)
		}
	}
	testscript.Main(built{m}, map[string]func(){oneThread: func() {
		runtime.LockOSThread()
		main()
	}, natsServer: func() {
		if err := bustest.ServeNATS(os.Args[1:]); err != nil {
			panic(err)
		}
	}})
}

// built gives the tests a directory for temporary files of their own, since a process that
// is killed leaves some, and the program that users build: these tests start it more than
// two thousand times, and their own program takes a third longer to start.
type built struct{ m *testing.M }

func (b built) Run() int {
	dir, err := os.MkdirTemp("", "pl")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "bin")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin+"/", "payledger/cmd/payledger")
	if own, ok := debug.ReadBuildInfo(); ok && slices.Contains(own.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		build.Args = slices.Insert(build.Args, 2, "-race")
	}
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("building the program to test: %v\n%s", err, out))
	}
	for name, value := range map[string]string{"TMPDIR": dir, "PATH": bin + string(filepath.ListSeparator) + os.Getenv("PATH")} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	return b.m.Run()
}

// natsServer is a nats-server of the version that this program embeds.
const natsServer = "nats-server"

// patience bounds the wait for what normally comes at once.
const patience = healthtest.Patience

// long reports whether PAYLEDGER_LONG asks for the long form of tests that repeat a
// fault at many points or in many rounds. The short form has each kind of fault.
func long() bool { return os.Getenv("PAYLEDGER_LONG") != "" }

// rounds is how often a test repeats itself.
func rounds(short, inLong int) int {
	if long() {
		return inLong
	}
	return short
}

// inLong leaves a test out of the short form: it starts several clusters or waits for
// several elections of NATS servers, as others do.
func inLong(t *testing.T) {
	t.Helper()
	if !long() {
		t.Skip("it is one of the long form: run with PAYLEDGER_LONG=1")
	}
}

// unraced leaves a test of nodes out of the short form, which is what runs with the race
// detector.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("for the race detector there are other tests of nodes")
	}
}

// oneThread is payledger with its main goroutine locked to one thread, for strace,
// which counts the calls of each thread separately.
const oneThread = "payledger-on-one-thread"

// server is a running payledger server.
type server struct {
	BaseURL   string `json:"base_url"`
	ProjectID string `json:"project_id"`
	APIKey    string `json:"api_key"`
	Data      string `json:"data"`

	VerifierKey string `json:"verifier_key"`

	EndpointID    string `json:"webhook_endpoint_id"`
	WebhookSecret string `json:"webhook_secret"`

	NATSAddress  string `json:"nats_address"`
	AdminAddress string `json:"admin_address"`

	cmd    *exec.Cmd
	stderr *healthtest.Buffer
	exited chan struct{} // closed once cmd.Wait has returned
}

// startServer runs "payledger ARGS --json --listen ADDRESS" and waits for
// the line that says it is ready.
func startServer(address string, args ...string) (*server, error) {
	return runServer(exec.Command("payledger", append(args, "--json", "--listen", address)...))
}

// runServer starts a command that becomes a server and waits for its line.
func runServer(cmd *exec.Cmd) (*server, error) {
	s := newServer(cmd)
	err := s.run()
	return s, err
}

func newServer(cmd *exec.Cmd) *server {
	s := &server{cmd: cmd, stderr: &healthtest.Buffer{}, exited: make(chan struct{})}
	s.cmd.Stderr = s.stderr
	return s
}

// run starts the process and waits until it is ready.
func (s *server) run() error {
	out, err := s.begin()
	if err != nil {
		return err
	}
	return s.ready(out)
}

// begin starts the process. ready follows.
func (s *server) begin() (out io.Reader, err error) {
	if out, err = s.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return out, s.cmd.Start()
}

// ready waits until the process is ready, or has ended.
func (s *server) ready(out io.Reader) error {
	lines := bufio.NewReader(out)
	line, readErr := lines.ReadBytes('\n')
	go func() {
		defer close(s.exited)
		io.Copy(io.Discard, lines) //nolint:errcheck // drained until the process ends
		s.cmd.Wait()               //nolint:errcheck // read from ProcessState
	}()
	if readErr != nil {
		<-s.exited
		return fmt.Errorf("payledger %s: %s\n%s", strings.Join(s.cmd.Args[1:], " "), s.cmd.ProcessState, s.stderr)
	}
	return json.Unmarshal(line, s)
}

// start is startServer for tests; the process is killed at the test's end. Until then its address
// is its own, as clients may still ask there once it is gone.
func start(t testing.TB, args ...string) *server {
	t.Helper()
	s, err := startServer(healthtest.FreeAddress(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("stderr of payledger %s:\n%s", strings.Join(args, " "), s.stderr)
		}
	})
	return s
}

// kill ends the process as a power cut would.
func (s *server) kill() {
	s.cmd.Process.Kill() //nolint:errcheck // it may be gone already
	<-s.exited
}

// killed reports whether the process has ended.
func (s *server) killed() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// stop asks the process to shut down and returns its exit code.
func (s *server) stop() int {
	s.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may be gone already
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.kill()
	}
	return s.cmd.ProcessState.ExitCode()
}

// stops asks the process to shut down, which it must do without an error.
func (s *server) stops(t testing.TB) {
	t.Helper()
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.stderr)
	}
}

// answer is an HTTP response with its body read.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
}

func (a answer) object(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(a.Body, &m); err != nil {
		t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	return m
}

func (a answer) text(t testing.TB, member string) string {
	t.Helper()
	s, ok := a.object(t)[member].(string)
	if !ok {
		t.Fatalf("no %q in %d %s", member, a.Status, a.Body)
	}
	return s
}

// send makes a request with the server's demo key. header is pairs of name
// and value.
func (s *server) send(method, path, body string, header ...string) (answer, error) {
	req, err := http.NewRequest(method, s.BaseURL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+s.ProjectID+":"+s.APIKey)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, b}, err
}

// do is send for tests that expect a status.
func (s *server) do(t testing.TB, want int, method, path, body string, header ...string) answer {
	t.Helper()
	a, err := s.send(method, path, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	if a.Status != want {
		t.Fatalf("%s %s %s: %d, want %d\n%s", method, path, body, a.Status, want, a.Body)
	}
	return a
}

// paid creates a payment and plays the provider that pays it.
func (s *server) paid(t testing.TB) string {
	t.Helper()
	id := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1500.00"}`).text(t, "id")
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"paid"}`)
	return id
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	healthtest.Eventually(t, what, ok)
}

// payledger runs a command to its end.
func payledger(t testing.TB, args ...string) (stdout string, code int) {
	t.Helper()
	cmd := exec.Command("payledger", args...)
	cmd.Env = append(os.Environ(), "GOGC=off") // it is over before a collection pays
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if slices.Contains(args, "--json") && out.Len() > 0 {
		stderr.Reset() // a slow machine's lines of progress
	}
	return out.String() + stderr.String(), cmd.ProcessState.ExitCode()
}

func removeAll(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
}
