package routesfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
)

func types() []connector.Type { return []connector.Type{bank(), adapter.NATS()} }

// bank is a type of connectors for the tests. The secret that it was given can be
// read from its connectors.
func bank() connector.Type {
	return connector.Type{Name: "bank", Open: func(e connector.Env, route string, settings []byte) (connector.Connector, error) {
		var s struct {
			Shop    int    `json:"shop"`
			KeyFile string `json:"key_file"`
			KeyEnv  string `json:"key_env"`
		}
		if err := connector.DecodeSettings(settings, &s); err != nil {
			return nil, err
		}
		if e.HTTP == nil {
			return nil, errors.New("no HTTP client")
		}
		key, err := e.Secret("key", s.KeyFile, s.KeyEnv)
		return opened{route: route, key: key}, err
	}}
}

type opened struct {
	connector.Connector
	route, key string
}

// write makes a folder with these files, for their owner alone.
func write(t *testing.T, files map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func load(t *testing.T, sandbox bool, files map[string]string) (Loaded, error) {
	t.Helper()
	s := Source{File: filepath.Join(write(t, files), "routes.json"), Sandbox: sandbox, Types: types()}
	return s.Load(connector.Env{})
}

func TestFileOfRulesAlone(t *testing.T) {
	t.Parallel()
	l, err := load(t, true, map[string]string{
		"routes.json": `[{"route":"a"},{"route":"b","weight":0},{"route":"a","currency":null},{"route":"c","currency":"RUB","min":"1.00","max":"5.00","weight":3},{"route":"sandbox"}]`,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := domain.RoutingTable{
		{Route: "a", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1},
		{Route: "b", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 0},
		{Route: "a", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1},
		{Route: "c", Currency: "RUB", Min: 100, Max: 500, Weight: 3},
		{Route: "sandbox", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1},
	}
	if diff := cmp.Diff(want, l.Table); diff != "" {
		t.Error(diff)
	}
	for route, name := range map[string]string{"a": "nats", "b": "nats", "c": "nats", "sandbox": "sandbox"} {
		if l.Connectors[route].Type != name {
			t.Errorf("the route %s is of type %q", route, l.Connectors[route].Type)
		}
	}
	if len(l.Connectors) != 4 || len(l.Warnings) != 0 {
		t.Errorf("%+v", l)
	}
}

func TestFileWithConnectors(t *testing.T) {
	t.Setenv("PAYLEDGER_TEST_KEY", "from the environment")
	l, err := load(t, true, map[string]string{
		"routes.json": `{
			"connectors": {
				"cards": {"type": "bank", "shop": 7, "key_file": "bank.key"},
				"sbp": {"key_env": "PAYLEDGER_TEST_KEY", "type": "bank"},
				"old": {"type": "nats", "settled_since": "2026-11-20T00:00:00+03:00"},
				"play": {"type": "sandbox", "fees_paid_by": "merchant", "settled_since": "2026-11-20"}
			},
			"rules": [{"route": "cards"}, {"route": "sbp"}, {"route": "play"}, {"route": "sandbox"}]
		}`,
		"bank.key": "from the file\r\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	for route, want := range map[string]opened{"cards": {route: "cards", key: "from the file"}, "sbp": {route: "sbp", key: "from the environment"}} {
		if got := l.Connectors[route].Connector; got != want {
			t.Errorf("the connector of %s is %+v", route, got)
		}
	}
	if len(l.Connectors) != 5 || l.Connectors["play"].Type != "sandbox" || l.Connectors["sandbox"].Type != "sandbox" {
		t.Errorf("%+v", l.Connectors)
	}
	for route, since := range map[string]string{"cards": "1970-01-01T00:00:00.000Z", "old": "2026-11-19T21:00:00.000Z", "play": "2026-11-20T00:00:00.000Z"} {
		if got := l.Connectors[route].SettledSince.String(); got != since {
			t.Errorf("%s is settled since %s, want %s", route, got, since)
		}
	}
	if got := l.Connectors["play"].FeesPaidBy; got != settlement.ByMerchant {
		t.Errorf("the fees of play are paid by %q", got)
	}
	want := []Problem{{5, 12, "/connectors/old", `no rule leads to the route "old": its connector only follows what was begun before`}}
	if diff := cmp.Diff(want, l.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutAFile(t *testing.T) {
	t.Parallel()
	l, err := Source{}.Load(connector.Env{})
	if err != nil || len(l.Table) != 0 || len(l.Connectors) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	l, err = Source{Sandbox: true}.Load(connector.Env{})
	if err != nil || len(l.Table) != 1 || l.Connectors["sandbox"].Type != "sandbox" {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestWhatIsWrong gives files and the lines in which Error says what is wrong.
func TestWhatIsWrong(t *testing.T) {
	t.Setenv("PAYLEDGER_TEST_EMPTY", "")
	t.Setenv("PAYLEDGER_TEST_LINES", "one\ntwo")
	rule := func(connectors string) string { return `{"rules":[{"route":"a"}],"connectors":` + connectors + `}` }
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"nothing":          {"", []string{"1:1: the file is empty"}},
		"no JSON":          {"[\n {\"route\": a}]", []string{"2:12: /0/route: not JSON: "}},
		"cut short":        {`{"rules":[`, []string{"not JSON: "}},
		"more after it":    {"[]\n []", []string{"2:2: there is more after the end"}},
		"a byte order":     {"\ufeff[]", []string{"1:1: not JSON: "}},
		"a member twice":   {"{\"rules\":[],\n\"rules\":[]}", []string{"2:1: /rules: this member is given twice"}},
		"twice below":      {rule(`{"a":{"type":"bank","key_env":"K","key_env":"K"}}`), []string{"/connectors/a/key_env: this member is given twice"}},
		"a number":         {"7", []string{`1:1: want an object with "rules" and "connectors", or an array of rules`}},
		"no rules":         {`{"connectors":{}}`, []string{"1:1: /rules: the rules are missing"}},
		"another member":   {`{"rules":[],"routes":[]}`, []string{"1:22: /routes: unknown member"}},
		"rules no array":   {`{"rules":{}}`, []string{"1:10: /rules: want an array"}},
		"a rule no object": {`["a"]`, []string{"1:2: /0: want a rule such as"}},
		"rules at once": {
			"[{\"route\":\"A\"},\n {\"route\":1,\"colour\":2},\n {\"route\":\"a\",\"min\":\"1\",\"max\":\"0.5\"},{},\n {\"route\":\"a\",\"weight\":-1,\"currency\":\"rub\",\"min\":1.234}]",
			[]string{
				"1:11: /0/route: want 1 to 32 of a-z", "2:11: /1/route: want a string", "2:22: /1/colour: unknown member",
				"3:31: /2/max: want an amount from min to 999999999.99", "3:38: /3/route: want 1 to 32",
				"4:24: /4/weight: want a whole number", "4:50: /4/min: want an amount such as",
			},
		},
		"a currency of three digits": {`[{"route":"a","currency":"JPY"}]`, []string{"1:26: /0/currency: want none or an ISO 4217 code"}},
		"no connector":               {`{"rules":[{"route":"a"},{"route":"b"}]}`, []string{`1:20: /rules/0/route: the route "a" has no connector`, `1:34: /rules/1/route: the route "b" has no connector`}},
		"connectors no object":       {rule(`[]`), []string{"/connectors: want an object", `the route "a" has no connector`}},
		"a connector no object":      {rule(`{"a":"bank"}`), []string{`/connectors/a: want an object with the member "type"`}},
		"a name of a connector":      {rule(`{"a":{"type":"nats"},"B/1":{"type":"nats"}}`), []string{"/connectors/B~11: the route's name"}},
		"no type":                    {rule(`{"a":{}}`), []string{"/connectors/a/type: want one of bank, nats, sandbox"}},
		"a type no text":             {rule(`{"a":{"type":7}}`), []string{"1:52: /connectors/a/type: want one of bank, nats, sandbox"}},
		"an unknown type":            {rule(`{"a":{"type":"Bank"}}`), []string{`/connectors/a/type: the type "Bank" is not known: want one of bank, nats, sandbox`}},
		"the sandbox's route":        {`[{"route":"sandbox"}]`, []string{`/0/route: the route "sandbox" is the simulated provider's: it needs --sandbox`}},
		"the sandbox's type":         {rule(`{"a":{"type":"sandbox"}}`), []string{`/connectors/a/type: the type "sandbox" is the simulated provider: it needs --sandbox`}},
		"the sandbox at a bank":      {rule(`{"a":{"type":"nats"},"sandbox":{"type":"bank"}}`), []string{`/connectors/sandbox/type: the route "sandbox" is the simulated provider's`}},
		"the sandbox's settings":     {rule(`{"a":{"type":"sandbox","shop":1}}`), []string{"type: the type", "/connectors/a/shop: unknown member: the sandbox has no settings"}},
		"who bears fees":             {rule(`{"a":{"type":"nats","fees_paid_by":"customer"}}`), []string{`/connectors/a/fees_paid_by: want "operator" or "merchant"`}},
		"a day":                      {rule(`{"a":{"type":"nats","settled_since":"20.11.2026"}}`), []string{`/connectors/a/settled_since: want a day such as "2026-11-20"`}},
		"no day":                     {rule(`{"a":{"type":"nats","settled_since":20261120}}`), []string{`/connectors/a/settled_since: want a day such as "2026-11-20"`}},
		"an unknown setting":         {rule(`{"a":{"type":"bank","shopp":1}}`), []string{"1:67: /connectors/a/shopp: there is no such setting"}},
		"a setting's type":           {rule(`{"a":{"type":"bank","shop":"1"}}`), []string{"1:66: /connectors/a/shop: the value is of the wrong type"}},
		"no secret":                  {rule(`{"a":{"type":"bank"}}`), []string{"/connectors/a/key_file: the secret is missing: name its file with key_file or its environment variable with key_env"}},
		"two secrets":                {rule(`{"a":{"type":"bank","key_file":"x","key_env":"X"}}`), []string{"/connectors/a/key_env: give key_file or key_env, not both"}},
		"a secret of two lines":      {rule(`{"a":{"type":"bank","key_env":"PAYLEDGER_TEST_LINES"}}`), []string{"PAYLEDGER_TEST_LINES is not one line of text"}},
		"a folder":                   {rule(`{"a":{"type":"bank","key_file":"."}}`), []string{"is not a regular file"}},
		"an empty file":              {rule(`{"a":{"type":"bank","key_file":"empty"}}`), []string{"empty is empty"}},
		"a long file":                {rule(`{"a":{"type":"bank","key_file":"long"}}`), []string{"long is longer than 4096 bytes"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, false, map[string]string{"routes.json": c.file, "empty": "\n", "long": strings.Repeat("k", maxSecret+1) + "\n"})
			var all *Error
			if !errors.As(err, &all) {
				t.Fatalf("%v", err)
			}
			if len(all.Problems) != len(c.want) {
				t.Errorf("want %d problems:\n%v", len(c.want), err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), "kkkk") || strings.Contains(err.Error(), "two\n") {
				t.Errorf("it tells a secret: %v", err)
			}
		})
	}
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	const file = `{"rules":[{"route":"a"}],"connectors":{"a":{"type":"bank","key_file":"key"}}}`
	longest := strings.Repeat("k", maxSecret)
	for name, c := range map[string]struct {
		mode    os.FileMode
		content string
		secret  string // empty: it is refused
		warned  bool
	}{
		"for its owner":     {0o600, "s3cret", "s3cret", false},
		"for a group":       {0o440, "s3cret\n", "s3cret", false},
		"for all to read":   {0o644, "s3cret\n", "s3cret", true},
		"for all to write":  {0o602, "s3cret\n", "", false},
		"for a group's pen": {0o620, "s3cret\n", "", false},
		"the longest":       {0o600, longest + "\r\n", longest, false},
		"too long":          {0o600, longest + "k", "", false},
		"two lines":         {0o600, "s3cret\n\n", "", false},
		"two of one line":   {0o600, "s3cret other\n", "s3cret other", false}, // as while one is replaced
		"no text":           {0o600, "\xff\xfe", "", false},
		"blanks":            {0o600, " s3cret", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := write(t, map[string]string{"routes.json": file, "key": c.content})
			if err := os.Chmod(filepath.Join(folder, "key"), c.mode); err != nil {
				t.Fatal(err)
			}
			l, err := Source{File: filepath.Join(folder, "routes.json"), Types: types()}.Load(connector.Env{})
			if (err == nil) != (c.secret != "") {
				t.Fatalf("%v", err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), "/connectors/a/key_file: ") || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("%v", err)
				}
				return
			}
			if got := l.Connectors["a"].Connector.(opened).key; got != c.secret {
				t.Errorf("the secret is %q", got)
			}
			if warned := len(l.Warnings) == 1 && strings.Contains(l.Warnings[0].Detail, "all users of this machine can read"); warned != c.warned || len(l.Warnings) > 1 {
				t.Errorf("%+v", l.Warnings)
			}
		})
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	folder := write(t, map[string]string{"long.json": strings.Repeat(" ", maxFile) + "[]"})
	for name, want := range map[string]string{"none.json": "no such file", "long.json": "longer than 1048576 bytes", ".": "is a directory"} {
		_, err := Source{File: filepath.Join(folder, name)}.Load(connector.Env{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGaps(t *testing.T) {
	t.Parallel()
	const all = domain.MaxAmount
	for name, c := range map[string]struct {
		table domain.RoutingTable
		want  []Gap
	}{
		"no rules":   {nil, []Gap{{"", 1, all}}},
		"everything": {domain.SandboxTable(), nil},
		"one currency": {
			domain.RoutingTable{{Route: "a", Currency: "RUB", Min: 100, Max: 500, Weight: 1}},
			[]Gap{{"RUB", 1, 99}, {"RUB", 501, all}, {"", 1, all}},
		},
		"weight 0": {domain.RoutingTable{{Route: "a", Currency: "RUB", Min: 1, Max: all}}, []Gap{{"RUB", 1, all}, {"", 1, all}}},
		"overlap, and one rule for all": {
			domain.RoutingTable{
				{Route: "a", Currency: "USD", Min: 1, Max: 900, Weight: 1},
				{Route: "b", Currency: "USD", Min: 50, Max: 99, Weight: 1},
				{Route: "c", Min: 901, Max: 1000, Weight: 1},
				{Route: "d", Currency: "USD", Min: 1002, Max: all, Weight: 1},
			},
			[]Gap{{"USD", 1001, 1001}, {"", 1, 900}, {"", 1001, all}},
		},
	} {
		if diff := cmp.Diff(c.want, Gaps(c.table)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// FuzzRoutesFile reads whatever there is: a problem stands in the file, and a file
// without one leads each payment to a route that has a connector.
func FuzzRoutesFile(f *testing.F) {
	for _, s := range []string{
		`[{"route":"a","min":"1.00"}]`, `{"rules":[{"route":"a"}],"connectors":{"a":{"type":"bank"}}}`, `{"rules":[{"route":"a"}],"connectors":{"a":{"type":"nats"}}}`,
		`{"rules":[],"rules":[]}`, "[\n\n{\"route\":\"sandbox\"}] x", "", "\ufeff", `{"connectors":{"a/b":{"type":[]}},"rules":[null]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		r := reading{source: Source{File: "routes.json", Types: types()}, content: content}
		r.connectors = make(map[string]connector.Opened)
		r.read()
		for _, p := range r.problems {
			lines := bytes.Split(content, []byte("\n"))
			if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > len(lines[p.Line-1])+1 || p.Detail == "" {
				t.Errorf("%q: %+v", content, p)
			}
		}
		for _, rule := range r.table {
			if _, ok := r.connectors[rule.Route]; !ok && len(r.problems) == 0 {
				t.Errorf("%q: the route %q has no connector", content, rule.Route)
			}
		}
	})
}
