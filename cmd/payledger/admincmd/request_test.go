package admincmd

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"payledger/cmd/payledger/cli"
)

// asked is a command on a server of 250 rows, which keeps what it was asked.
type asked struct {
	Paged
	Name   string   `json:"name"`
	Kinds  []string `json:"kinds,omitempty"`
	Absent string   `json:"absent,omitzero"`

	requests *[]string
}

func (c asked) open(_ *cli.App, fn func(*cli.Client) error) error {
	return fn(&cli.Client{HTTP: &http.Client{Transport: c}})
}

func (c asked) RoundTrip(r *http.Request) (*http.Response, error) {
	said := r.Method + " " + r.URL.RequestURI()
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		said += " " + string(body)
	}
	*c.requests = append(*c.requests, said)
	q := r.URL.Query()
	begin, _ := strconv.Atoi(q.Get("cursor")) // the first page has none
	size, _ := strconv.Atoi(q.Get("limit"))
	if size == 0 { // no list
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	}
	var rows []string
	for i := range min(size, 250-begin) {
		rows = append(rows, fmt.Sprint(begin+i))
	}
	next := "null"
	if begin += len(rows); begin < 250 {
		next = fmt.Sprintf("%q", fmt.Sprint(begin))
	}
	answer := fmt.Sprintf(`{"data":[%s],"next_cursor":%s}`, strings.Join(rows, ","), next)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

// A list is asked for in pages, and no row beyond its limit.
func TestListsArePaged(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]struct {
		rows  int
		pages []string
	}{
		0:   {250, []string{"limit=100", "cursor=100&limit=100", "cursor=200&limit=100"}},
		150: {150, []string{"limit=100", "cursor=100&limit=50"}},
		7:   {7, []string{"limit=7"}},
	} {
		var requests []string
		var out bytes.Buffer
		a := &cli.App{Ctx: t.Context(), Stdout: &out}
		c := asked{Paged: Paged{limit}, Name: "a/b ?", requests: &requests}
		if err := table(a, c, "GET /list/{name}", "none", "ROW", func(row int) []any { return []any{row} }); err != nil {
			t.Fatal(err)
		}
		for i := range want.pages {
			want.pages[i] = "GET /list/a%2Fb%20%3F?" + want.pages[i]
		}
		if rows := strings.Count(out.String(), "\n") - 1; rows != want.rows || !slices.Equal(requests, want.pages) {
			t.Errorf("limit %d: %d rows by %q", limit, rows, requests)
		}
	}
}

// What the path does not name is the body; what was not given is not sent.
func TestMembersOfABody(t *testing.T) {
	t.Parallel()
	var requests []string
	var out bytes.Buffer
	a := &cli.App{Ctx: t.Context(), Stdout: &out}
	c := asked{Name: "..%", Kinds: []string{"x"}, requests: &requests}
	if err := do(a, c, "POST /one/{name}/kinds", nil, "done\n"); err != nil {
		t.Fatal(err)
	}
	if err := do(a, c, "DELETE /one/{name}", nil, "done\n"); err != nil {
		t.Fatal(err)
	}
	body, ok := strings.CutPrefix(requests[0], "POST /one/..%25/kinds {")
	if !ok || !strings.Contains(body, `"kinds":["x"]`) || strings.Contains(body, "name") || strings.Contains(body, "absent") || requests[1] != "DELETE /one/..%25" {
		t.Errorf("asked %q", requests)
	}
}
