// Package admincmd has the commands that ask a running server through its
// admin interface, or open a stopped data directory in its place.
//
// A command is a struct of its flags and arguments, which are the members of its request,
// and a Run of the line of that request and of what is printed: a table, the answer, or
// what was done. A few make several requests or print as they go.
package admincmd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/service"
	"payledger/httpapi/wire"
)

// command is a command that makes one request of the admin interface. Its flags and
// arguments are the members of the request, as their json tags name them.
type command interface {
	open(a *cli.App, fn func(*cli.Client) error) error
}

// Anyway is for commands that ask the server that runs on a directory, or else open the
// directory.
type Anyway struct{ Directory }

func (c Anyway) open(a *cli.App, fn func(*cli.Client) error) error {
	return c.Holding(a, service.Options{}, fn)
}

// Reads is Anyway, for what only reads: it works on a directory that cannot be written to, and on the
// log in a file.
type Reads struct{ Source }

func (c Reads) open(a *cli.App, fn func(*cli.Client) error) error {
	return c.Reading(a, fn)
}

// Served is for commands that need a running server.
type Served struct{ Directory }

func (c Served) open(a *cli.App, fn func(*cli.Client) error) error {
	return c.Serving(a, "", fn)
}

// OfProject is for commands on what belongs to a project: "{project}" of a path.
type OfProject struct {
	Anyway
	InProject
}

// InProject is the flag of commands on what belongs to a project.
type InProject struct {
	Project string `help:"Project. Default: the only one there is." placeholder:"PROJECT_ID" json:"-"`
}

func (c InProject) projectID(ctx context.Context, m *cli.Client) (string, error) {
	if c.Project != "" {
		return c.Project, nil
	}
	var list wire.Page[wire.Project]
	if err := m.Call(ctx, http.MethodGet, "/admin/projects", nil, &list); err != nil {
		return "", err
	}
	switch len(list.Data) {
	case 0:
		return "", cli.Errorf(cli.ExitRefused, "there is no project yet: register one with \"payledger project create NAME\"")
	case 1:
		return list.Data[0].ProjectID, nil
	}
	return "", cli.Errorf(cli.ExitUsage, "--project is missing, and there are %d projects: name one of those that \"payledger project list\" shows",
		len(list.Data))
}

// Paged is the flag of lists that are shown in part.
type Paged struct {
	Limit int `help:"Show at most this many; 0: all. Default: 50." default:"50" placeholder:"N" json:"limit"`
}

// Validate refuses a limit that is none.
func (p Paged) Validate() error {
	if p.Limit < 0 {
		return fmt.Errorf("--limit %d: want 0 or more", p.Limit)
	}
	return nil
}

// Whole is for lists that are asked for in pages and shown to their end.
type Whole struct {
	Limit int `kong:"-" json:"limit"`
}

// request is the request of a command.
type request struct {
	method, path string
	query        url.Values
	body         map[string]jsontext.Value
}

// asking calls fn with the request of a command. line is its method and path, such as "POST
// /admin/routes/{route}/pause"; members that the path names go there, the others are the query of a
// GET or the body of a POST or PATCH.
func asking(a *cli.App, c command, line string, fn func(*cli.Client, request) error) error {
	return c.open(a, func(m *cli.Client) error {
		text, err := json.Marshal(c)
		var members map[string]jsontext.Value
		if err == nil {
			err = json.Unmarshal(text, &members)
		}
		if of, ok := c.(interface {
			projectID(context.Context, *cli.Client) (string, error)
		}); ok && err == nil {
			var id string
			id, err = of.projectID(a.Ctx, m)
			line = strings.Replace(line, "{project}", url.PathEscape(id), 1)
		}
		if err != nil {
			return err
		}
		var r request
		r.method, r.path, _ = strings.Cut(line, " ")
		values := url.Values{}
		for name, value := range members {
			plain, err := jsontext.AppendUnquote(nil, value)
			if err != nil { // no string
				plain = value
			}
			if placed := strings.Replace(r.path, "{"+name+"}", url.PathEscape(string(plain)), 1); placed != r.path {
				r.path = placed
				delete(members, name)
				continue
			}
			values.Set(name, string(plain))
		}
		switch r.method {
		case http.MethodGet:
			r.query = values
		case http.MethodPost, http.MethodPatch:
			r.body = members
		}
		return fn(m, r)
	})
}

// send makes the request and decodes the answer into out, which may be nil.
func (r request) send(ctx context.Context, m *cli.Client, out any) error {
	var body any
	if r.body != nil {
		body = r.body
	}
	return m.Call(ctx, r.method, r.url(), body, out)
}

func (r request) url() string {
	if len(r.query) == 0 {
		return r.path
	}
	return r.path + "?" + r.query.Encode()
}

// ask makes the request, decodes the answer into out, which may be nil, and then prints.
func ask(a *cli.App, c command, line string, out any, then func() error) error {
	return asking(a, c, line, func(m *cli.Client, r request) error {
		if err := r.send(a.Ctx, m, out); err != nil {
			return err
		}
		return then()
	})
}

// do makes the request and prints the result.
func do(a *cli.App, c command, line string, done any, text string, args ...any) error {
	return ask(a, c, line, nil, func() error { return a.Print(done, text, args...) })
}

// show makes the request and prints the answer: as it is with --json, or else as text.
func show[T any](a *cli.App, c command, line string, text func(T) error) error {
	var raw jsontext.Value
	return ask(a, c, line, &raw, func() error { return printed(a, raw, text) })
}

// printed prints an answer as it is with --json, or else as text.
func printed[T any](a *cli.App, raw jsontext.Value, text func(T) error) error {
	if a.JSON {
		return a.PrintJSON(raw)
	}
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return text(v)
}

// list prints a list, with --json each row as it is, or else all of them as text.
func list[T any](a *cli.App, c command, line string, text func([]T) error) error {
	return asking(a, c, line, func(m *cli.Client, r request) error {
		var all []T
		err := each(a, m, r, func(v T) error {
			all = append(all, v)
			return nil
		})
		if err != nil || a.JSON {
			return err
		}
		return text(all)
	})
}

// table is list in columns. headings are separated by ", ".
func table[T any](a *cli.App, c command, line, none, headings string, columns func(T) []any) error {
	return list(a, c, line, func(all []T) error {
		rows := make([][]string, len(all))
		for i, v := range all {
			rows[i] = texts(columns(v)...)
		}
		return a.PrintTable(none, strings.Split(headings, ", "), rows)
	})
}

// texts are the cells of a row: of a pointer to nothing a dash.
func texts(cells ...any) []string {
	row := make([]string, len(cells))
	for i, cell := range cells {
		if p := reflect.ValueOf(cell); p.Kind() == reflect.Pointer {
			if p.IsNil() {
				cell = "-"
			} else {
				cell = p.Elem().Interface()
			}
		}
		row[i] = fmt.Sprint(cell)
	}
	return row
}

// some is a value in words, and nothing for none.
func some[T comparable](format string, v T) string {
	if v == *new(T) {
		return ""
	}
	return fmt.Sprintf(format, v)
}

// pageSize is how many rows of a list are asked for at a time.
const pageSize = 100

// each prints the rows of a list as they are with --json, or else calls fn for them. Where
// the command has a limit other than 0 it ends there.
func each[T any](a *cli.App, m *cli.Client, r request, fn func(T) error) error {
	limit, err := strconv.Atoi(r.query.Get("limit"))
	paged := err == nil
	for left := limit; ; {
		if size := pageSize; paged {
			if limit > 0 {
				size = min(size, left)
			}
			r.query.Set("limit", strconv.Itoa(size))
		}
		var page wire.Page[jsontext.Value]
		if err := r.send(a.Ctx, m, &page); err != nil {
			return err
		}
		for _, row := range page.Data {
			if err := printed(a, row, fn); err != nil {
				return err
			}
		}
		left -= len(page.Data)
		if page.NextCursor == nil || (limit > 0 && left <= 0) {
			return nil
		}
		r.query.Set("cursor", *page.NextCursor)
	}
}
