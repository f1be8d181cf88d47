package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/rogpeppe/go-internal/testscript"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/connector/adapter/adaptertest"
)

// TestScripts runs testdata/script/*.txtar. Beside the standard commands there
// are:
//
//	server ARGS…                  start "payledger ARGS" and wait until it is ready;
//	                              sets $BASE, $PROJECT and $KEY
//	                              and, of --webhook, $ENDPOINT and $SECRET
//	receiver ARGS…                start "payledger listen ARGS" at $HOOK, in place of the one before
//	arrives PATTERN…              wait until the receiver has printed lines like these, in this order
//	shutdown                      ask it to end; fails unless it exits with 0
//	crash                         kill it
//	http STATUS METHOD PATH BODY  make a request with $PROJECT:$KEY; the body is stdout;
//	                              PATH may be a URL, such as $HOOK
//	member NAME VAR               put a member of the JSON object on stdout into $VAR
//	waitfor PATTERN COMMAND ARGS… run a command until its stdout matches
//	status CODE COMMAND ARGS…     run a command that must end with this exit code
//	spoil FILE POSITION…          damage the events in a ledger.db, every copy of them
//	signal ROUTE PAYMENT BODY     send a provider's signal with the connector's credentials and
//	                              wait for the answer; needs --nats-listen
//	adapter                       start the reference adapter; sets $ADAPTER, and writes its
//	                              secret to adapter.secret
//	hold VAR                      occupy a TCP address for the rest of the script
func TestScripts(t *testing.T) {
	t.Parallel()
	refuseStop(t)
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"server":   scriptServer,
			"receiver": scriptReceiver,
			"arrives":  scriptArrives,
			"shutdown": scriptShutdown,
			"crash":    func(ts *testscript.TestScript, _ bool, _ []string) { running(ts).kill() },
			"http":     scriptHTTP,
			"member":   scriptMember,
			"status":   scriptStatus,
			"waitfor":  scriptWaitFor,
			"spoil":    scriptSpoil,
			"hold":     scriptHold,
			"signal":   scriptSignal,
			"adapter":  scriptAdapter,
			"report":   scriptReport,
		},
		Setup: func(env *testscript.Env) error {
			env.Values[serverKey{}] = &server{}
			env.Values[listenerKey{}] = &listener{}
			env.Setenv("TMPDIR", env.WorkDir)
			env.Setenv("GOGC", "off") // there are some 800 processes, most of them over before a collection pays
			return nil
		},
	})
}

// refuseStop keeps the standard command "stop" out of the scripts: it ends a
// script there and lets it pass, so that nothing after it is ever run.
func refuseStop(t *testing.T) {
	t.Helper()
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	for _, name := range scripts {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains("\n"+string(content), "\nstop") {
			t.Errorf("%s: \"stop\" ends the script there; to end the server, use shutdown", name)
		}
	}
}

// scriptReport writes a settlement report of lines "kind,payment_id,refund_id,reference,gross,fee,net".
func scriptReport(ts *testscript.TestScript, _ bool, args []string) {
	text := "kind,payment_id,refund_id,reference,gross,fee,net,currency,settled_on\n"
	for _, line := range args[1:] {
		text += line + ",RUB,2020-02-20\n"
	}
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[0])), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func scriptAdapter(ts *testscript.TestScript, _ bool, _ []string) {
	server := httptest.NewServer(adaptertest.New())
	ts.Defer(server.Close)
	ts.Setenv("ADAPTER", server.URL)
	ts.Check(os.WriteFile(ts.MkAbs("adapter.secret"), []byte(adaptertest.Secret+"\n"), 0o600))
}

type serverKey struct{}

func running(ts *testscript.TestScript) *server {
	return ts.Value(serverKey{}).(*server) //nolint:forcetypeassert // set in Setup
}

func scriptServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("to see a server fail, use status")
	}
	for i, a := range args {
		if after, ok := strings.CutPrefix(a, "--data="); ok {
			args[i] = "--data=" + ts.MkAbs(after)
		}
	}
	s, err := startServer("127.0.0.1:0", args...)
	ts.Check(err)
	ts.Defer(s.kill)
	*running(ts) = *s
	ts.Setenv("BASE", s.BaseURL)
	ts.Setenv("DATA", s.Data)
	if s.ProjectID != "" {
		ts.Setenv("PROJECT", s.ProjectID)
		ts.Setenv("KEY", s.APIKey)
	}
	if s.EndpointID != "" {
		ts.Setenv("ENDPOINT", s.EndpointID)
		ts.Setenv("SECRET", s.WebhookSecret)
	}
}

func scriptShutdown(ts *testscript.TestScript, _ bool, _ []string) {
	if s := running(ts); s.stop() != 0 {
		ts.Fatalf("exit code %d\n%s", s.cmd.ProcessState.ExitCode(), s.stderr)
	}
}

func scriptHTTP(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: http STATUS METHOD PATH [BODY]")
	}
	s := *running(ts)
	s.ProjectID, s.APIKey = ts.Getenv("PROJECT"), ts.Getenv("KEY")
	if strings.Contains(args[2], "://") {
		s.BaseURL = ""
	}
	a, err := s.send(args[1], args[2], strings.Join(args[3:], ""))
	ts.Check(err)
	_, err = ts.Stdout().Write(append(a.Body, '\n'))
	ts.Check(err)
	if strconv.Itoa(a.Status) != args[0] {
		ts.Fatalf("%s %s: %d, want %s\n%s", args[1], args[2], a.Status, args[0], a.Body)
	}
}

func scriptMember(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: member NAME VAR")
	}
	_, rest, ok := strings.Cut(ts.ReadFile("stdout"), `"`+args[0]+`":"`)
	value, _, closed := strings.Cut(rest, `"`)
	if !ok || !closed {
		ts.Fatalf("no string member %q on stdout", args[0])
	}
	ts.Setenv(args[1], value)
}

func scriptStatus(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if err != nil {
		text, ok := strings.CutPrefix(err.Error(), "exit status ")
		if !ok {
			ts.Fatalf("%v", err)
		}
		code, err = strconv.Atoi(text)
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func scriptWaitFor(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: waitfor PATTERN COMMAND ARGS…")
	}
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	for deadline := time.Now().Add(patience); ; {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("timed out waiting for %s", want)
		}
	}
}

func scriptSpoil(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: spoil FILE POSITION…")
	}
	ts.Check(spoil(ts.MkAbs(args[0]), func(at eventstore.Position) bool {
		return slices.Contains(args[1:], strconv.FormatUint(uint64(at), 10))
	}))
}

// spoil flips a bit in every copy of the records that a ledger.db holds.
func spoil(file string, which func(eventstore.Position) bool) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	damaged := bytes.Clone(b)
	_, err = bolt.FindRecords(context.Background(), bytes.NewReader(b), int64(len(b)), func(int64) {}, func(c bolt.FoundRecord) error {
		if which(c.Position) {
			damaged[c.Offset+int64(c.Size)/2] ^= 1
		}
		return nil
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, damaged, 0o600)
}

func scriptHold(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

func scriptSignal(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: signal ROUTE PAYMENT BODY")
	}
	nc, err := running(ts).asConnector()
	ts.Check(err)
	defer nc.Close()
	_, err = sendSignal(nc, args[0], ts.Getenv("PROJECT"), args[1], args[2])
	ts.Check(err)
}

// asConnector connects to the server's NATS with the credentials of connectors.
func (s *server) asConnector() (*nats.Conn, error) {
	var passwords embedded.Credentials
	content, err := os.ReadFile(filepath.Join(s.Data, "nats-credentials.json"))
	if err == nil {
		err = json.Unmarshal(content, &passwords)
	}
	if err != nil {
		return nil, err
	}
	return nats.Connect(s.NATSAddress, nats.UserInfo(passwords.Connector.User, passwords.Connector.Password),
		nats.CustomInboxPrefix("_INBOX_connector"), nats.Timeout(patience))
}

// sendSignal sends a provider's signal until it is answered.
func sendSignal(nc *nats.Conn, route, project, payment, body string) (reply domain.SignalReply, err error) {
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		return reply, err
	}
	defer answers.Unsubscribe() //nolint:errcheck // it goes with the connection
	m := nats.NewMsg("payledger.v1.signals." + route + "." + project + "." + payment)
	m.Data = []byte(body)
	m.Header.Set("Payledger-Reply", inbox)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if err := nc.PublishMsg(m); err != nil {
			return reply, err
		}
		if answer, err := answers.NextMsg(5 * time.Second); err == nil {
			err = json.Unmarshal(answer.Data, &reply)
			return reply, err
		}
	}
	return reply, fmt.Errorf("the signal %s was not answered", body)
}
